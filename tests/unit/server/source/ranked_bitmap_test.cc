#include <catch2/catch.hpp>

#include <vector>

#include <rapidcheck.h>
#include <rapidcheck/catch.h>

#include "server/source/ranked_bitmap.h"

namespace millrace::test {
namespace {

TEST_CASE("rank and select of a bitmap are each other's inverse", "[bitmap]") {
  rc::prop("for sets of every density", [] {
    const auto size = *rc::gen::inRange<std::uint64_t>(1, 20'000);
    const auto one_in = *rc::gen::element<int>(1, 2, 30, 3000);
    const auto begin = *rc::gen::inRange<std::uint64_t>(0, size);
    RankedBitmap bitmap(size);
    std::vector<std::uint64_t> members;
    std::uint64_t state = begin;
    for (std::uint64_t n = begin; n < size; ++n) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      if ((state >> 33) % static_cast<std::uint64_t>(one_in) != 0) continue;
      bitmap.Set(n);
      members.push_back(n);
    }
    bitmap.Seal();
    RC_ASSERT(bitmap.count() == members.size());
    for (std::uint64_t rank = 0; rank < members.size(); ++rank) {
      RC_ASSERT(bitmap.Select(rank) == members[rank]);
      RC_ASSERT(bitmap.Rank(members[rank]) == rank);
      RC_ASSERT(bitmap.Test(members[rank]));
      RC_ASSERT(bitmap.Next(members[rank]) == members[rank]);
      if (rank > 0) RC_ASSERT(bitmap.Next(members[rank - 1] + 1) == members[rank]);
    }
    std::vector<std::uint64_t> ranks;
    for (std::uint64_t i = 0; i < members.size(); ++i) ranks.push_back(members.size() - 1 - i);
    bitmap.SelectAll(ranks);
    RC_ASSERT(std::vector<std::uint64_t>(ranks.rbegin(), ranks.rend()) == members);
    RC_ASSERT(bitmap.Rank(size) == members.size());
    std::uint64_t absent = 0;
    for (std::uint64_t n = 0; n < size; ++n) {
      if (!bitmap.Test(n)) RC_ASSERT(bitmap.SelectAbsent(absent++) == n);
    }
  });
}

}  // namespace
}  // namespace millrace::test
