// Tests of the division of places among the branches of a mix.
#include "common/epoch/mix_shares.h"

#include <catch2/catch.hpp>

#include <cstdint>
#include <numeric>
#include <vector>

namespace millrace {
namespace {

using Counts = std::vector<std::uint64_t>;

TEST_CASE("every whole block of a mix has exactly the weights", "[mix_shares]") {
  const MixShares shares(Counts{14, 6});
  CHECK(shares.sum() == 10);  // 7 and 3
  CHECK(shares.block() == 70);
  CHECK(shares.OfBlock(0) == 49);
  CHECK(shares.OfBlock(1) == 21);
  CHECK(shares.Of(0) == Counts{0, 0});
  CHECK(shares.Of(70) == Counts{49, 21});
  CHECK(shares.Of(7'000'000) == Counts{4'900'000, 2'100'000});
}

TEST_CASE("a mix's shares add up, never fall, and are exact to two places", "[mix_shares]") {
  const Counts weights{5, 1, 3};
  const MixShares shares(weights);
  Counts before(3, 0);
  for (std::uint64_t slots = 0; slots <= 3 * shares.block(); ++slots) {
    const Counts counts = shares.Of(slots);
    REQUIRE(std::accumulate(counts.begin(), counts.end(), std::uint64_t{0}) == slots);
    for (std::size_t i = 0; i < 3; ++i) {
      REQUIRE(counts[i] >= before[i]);
      REQUIRE(counts[i] * 9 + 2 * 9 > slots * weights[i]);
      REQUIRE(counts[i] * 9 < slots * weights[i] + 2 * 9);
    }
    before = counts;
  }
}

TEST_CASE("the largest epoch and weights do not overflow a mix's shares", "[mix_shares]") {
  const std::uint64_t most = MixShares::kMaxWeight;
  const std::uint64_t slots = std::uint64_t{1} << 62;
  CHECK(MixShares(Counts{most, most}).Of(slots) == Counts{slots / 2, slots / 2});
  CHECK(MixShares(Counts{most - 1, 1}).Of(slots) == Counts{slots - slots / most, slots / most});
}

}  // namespace
}  // namespace millrace
