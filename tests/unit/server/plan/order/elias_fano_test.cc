#include <catch2/catch.hpp>

#include <algorithm>
#include <numeric>
#include <optional>
#include <set>
#include <vector>

#include <rapidcheck.h>
#include <rapidcheck/catch.h>

#include "server/plan/order/elias_fano.h"

namespace millrace::test {
namespace {

void CheckNumbers(std::uint64_t limit, const std::set<std::uint64_t>& set) {
  EliasFano numbers(limit, set.size());
  for (const std::uint64_t number : set) numbers.Append(number);
  REQUIRE(numbers.full());
  numbers.Seal();
  REQUIRE(numbers.size() == set.size());
  std::uint64_t i = 0;
  for (const std::uint64_t number : set) {
    REQUIRE(numbers.Select(i) == number);
    REQUIRE(numbers.Find(number) == i);
    for (const std::uint64_t other : {number - 1, number + 1}) {
      if (other < limit && !set.contains(other)) REQUIRE(numbers.Find(other) == std::nullopt);
    }
    ++i;
  }
  std::vector<std::uint64_t> all(set.size());
  std::iota(all.rbegin(), all.rend(), 0);
  numbers.SelectAll(all);
  REQUIRE(std::equal(all.rbegin(), all.rend(), set.begin(), set.end()));
}

TEST_CASE("ascending numbers are found by rank and by value", "[elias-fano]") {
  rc::prop("for limits and numbers of every size", [] {
    const auto width = *rc::gen::inRange(1, 41);
    const auto limit = *rc::gen::inRange<std::uint64_t>(1, std::uint64_t{1} << width);
    CheckNumbers(limit, *rc::gen::container<std::set<std::uint64_t>>(
                            rc::gen::inRange<std::uint64_t>(0, limit)));
  });
}

TEST_CASE("ascending numbers may lie close together at either end", "[elias-fano]") {
  constexpr std::uint64_t kLimit = std::uint64_t{1} << 32;
  std::set<std::uint64_t> set;
  for (std::uint64_t i = 0; i < 3000; ++i) set.insert({i, kLimit - 1 - i});
  set.insert(kLimit / 2);
  CheckNumbers(kLimit, set);
}

TEST_CASE("no numbers and all numbers are ascending numbers", "[elias-fano]") {
  for (const std::uint64_t limit : {0, 1, 63, 64, 512, 4096}) {
    CheckNumbers(limit, {});
    std::set<std::uint64_t> all;
    for (std::uint64_t i = 0; i < limit; ++i) all.insert(i);
    CheckNumbers(limit, all);
  }
  EliasFano none(1000, 0);
  none.Seal();
  CHECK(none.Find(999) == std::nullopt);
}

}  // namespace
}  // namespace millrace::test
