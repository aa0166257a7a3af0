#include <catch2/catch.hpp>

#include "server/dataset/split.h"

namespace millrace::test {
namespace {

TEST_CASE("the hash split is the reference's", "[split]") {
  // The values come from Python: int.from_bytes(md5(b"<identity>#<seed>").digest(), "big") %
  // 1000000007 …
  SplitOptions options;
  options.method = SplitMethod::kHash;
  options.proportions = {9, 1};
  const HashSplit two = *HashSplit::Create(options);
  for (std::uint64_t identity = 0; identity < 40; ++identity) {
    const bool second = identity == 8 || identity == 25 || identity == 32 || identity == 39;
    CHECK(two.Label(identity) == (second ? 1 : 0));
  }
  options.proportions = {8, 1, 1};
  options.seed = 42;
  const HashSplit three = *HashSplit::Create(options);
  for (std::uint64_t i = 0; i < 20; ++i) {
    const std::uint32_t expected = i == 3 || i == 17 ? 2 : (i == 5 ? 1 : 0);
    CHECK(three.Label(~std::uint64_t{0} - i) == expected);
  }
}

TEST_CASE("a part of proportion 0 has nothing", "[split]") {
  SplitOptions options;
  options.method = SplitMethod::kHash;
  options.proportions = {0, 1};
  const HashSplit second = *HashSplit::Create(options);
  for (std::uint64_t identity = 0; identity < 100; ++identity) CHECK(second.Label(identity) == 1);
}

TEST_CASE("proportions that cannot be are refused", "[split]") {
  SplitOptions options;
  options.proportions = {3, -1};
  CHECK(HashSplit::Create(options).status().message() ==
        "split.proportions: -1 is negative: expected numbers from 0 up");
  options.proportions = {0, 0};
  CHECK_FALSE(HashSplit::Create(options).ok());
}

}  // namespace
}  // namespace millrace::test
