#include <catch2/catch.hpp>

#include <algorithm>
#include <bit>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <rapidcheck.h>
#include <rapidcheck/catch.h>

#include "server/plan/order/bounds.h"
#include "tests/unit/server/plan/order/golden_orders.h"

namespace millrace::test {
namespace {

using Bounds = std::vector<std::uint64_t>;
using Values = std::vector<std::int64_t>;
using Entries = std::vector<ValueHistogram::Entry>;

ValueHistogram HistogramOf(const Values& values) {
  ValueHistogram histogram;
  histogram.Add(values);
  return histogram;
}

std::uint64_t SumOfBounds(const Values& values, const Bounds& bounds) {
  std::uint64_t sum = 0;
  for (const std::int64_t v : values) {
    sum += *std::lower_bound(bounds.begin(), bounds.end(), static_cast<std::uint64_t>(v));
  }
  return sum;
}

/// The best of all sets of bounds.
Bounds BestOfAllBounds(const Values& values, std::size_t count) {
  const std::set<std::int64_t> set(values.begin(), values.end());
  const Bounds distinct(set.begin(), set.end());
  const std::size_t bounds = std::min(count, distinct.size());
  std::optional<std::pair<std::uint64_t, Bounds>> best;
  for (std::uint32_t chosen = 0; chosen < 1u << distinct.size(); ++chosen) {
    if (static_cast<std::size_t>(std::popcount(chosen)) != bounds) continue;
    if ((chosen >> (distinct.size() - 1) & 1) == 0) continue;  // the largest value needs a bound
    Bounds candidate;
    for (std::size_t i = 0; i < distinct.size(); ++i) {
      if ((chosen >> i & 1) != 0) candidate.push_back(distinct[i]);
    }
    const std::uint64_t sum = SumOfBounds(values, candidate);
    std::reverse(candidate.begin(),
                 candidate.end());  // of equal sums, the last bounds decide first
    const std::pair<std::uint64_t, Bounds> ranked(sum, candidate);
    if (!best || ranked < *best) best = ranked;
  }
  return {best->second.rbegin(), best->second.rend()};
}

/// The dynamic programme without divide and conquer.
Bounds PlainBounds(const Entries& entries, std::size_t count) {
  const std::size_t size = entries.size();
  std::vector<std::uint64_t> totals{0};
  for (const auto& entry : entries) totals.push_back(totals.back() + entry.count);
  const auto cost = [&](std::size_t j, std::size_t i) {
    return entries[i - 1].largest * (totals[i] - totals[j]);
  };
  std::vector<std::map<std::size_t, std::size_t>> choices(count + 1);
  std::map<std::size_t, std::uint64_t> best{{0, 0}};
  for (std::size_t bucket = 1; bucket <= count; ++bucket) {
    std::map<std::size_t, std::uint64_t> next;
    for (std::size_t i = bucket; i + count <= size + bucket; ++i) {
      for (const auto& [j, sum] : best) {
        if (j >= i || (next.contains(i) && next[i] <= sum + cost(j, i))) continue;
        next[i] = sum + cost(j, i);
        choices[bucket][i] = j;
      }
    }
    best = next;
  }
  Bounds bounds(count);
  for (std::size_t bucket = count, i = size; bucket > 0; i = choices[bucket--][i]) {
    bounds[bucket - 1] = entries[i - 1].largest;
  }
  return bounds;
}

TEST_CASE("best bounds are the recorded ones", "[bounds][golden]") {
  std::size_t cases = 0;
  for (const std::string name : {"bounds", "bounds_large"}) {
    for (const GoldenOrder& one : GoldenOrders(name)) {
      INFO(one.params.dump().substr(0, 300));
      CHECK(BestBounds(HistogramOf(GoldenValues(one.params)), one.params["count"]) ==
            one.expected["bounds"].get<Bounds>());
      ++cases;
    }
  }
  CHECK(cases == 9);
}

TEST_CASE("best bounds are the best of all sets of bounds", "[bounds]") {
  rc::prop("for few values, so that many sets are equally good", [] {
    const auto most = *rc::gen::element<std::int64_t>(3, 9, 100);
    const auto values = *rc::gen::resize(
        14, rc::gen::nonEmpty(rc::gen::container<Values>(rc::gen::inRange<std::int64_t>(0, most))));
    const auto count = *rc::gen::inRange<std::size_t>(1, 7);
    RC_ASSERT(BestBounds(HistogramOf(values), count) == BestOfAllBounds(values, count));
  });
}

TEST_CASE("divide and conquer finds what the plain dynamic programme finds", "[bounds]") {
  rc::prop("for up to 120 distinct values", [] {
    const auto most = *rc::gen::element<std::int64_t>(20, 120, 1'000'000);
    const auto values = *rc::gen::container<Values>(120, rc::gen::inRange<std::int64_t>(0, most));
    const ValueHistogram histogram = HistogramOf(values);
    const std::size_t distinct = histogram.Entries().size();
    const auto count = *rc::gen::inRange<std::size_t>(1, distinct + 1);
    RC_ASSERT(BestBounds(histogram, count) == PlainBounds(histogram.Entries(), count));
  });
}

TEST_CASE("there may be 1,024 bounds", "[bounds]") {
  Values values;
  for (std::int64_t i = 0; i < 4000; ++i) values.push_back(i * i % 1031 * 3);
  const ValueHistogram histogram = HistogramOf(values);
  CHECK(histogram.Entries().size() == 516);
  CHECK(BestBounds(histogram, 1024).size() == 516);
  for (std::int64_t i = 0; i < 1040; ++i) values.push_back(i * 3);
  const ValueHistogram more = HistogramOf(values);
  CHECK(more.Entries().size() == 1040);
  CHECK(BestBounds(more, 1024) == PlainBounds(more.Entries(), 1024));
}

TEST_CASE("of equally good bounds the smallest last but one is taken, then the one before",
          "[bounds]") {
  CHECK(BestBounds(HistogramOf({0, 3, 6}), 2) == Bounds{0, 6});
  CHECK(BestBounds(HistogramOf({1, 2, 3, 4, 5}), 2) == Bounds{2, 5});
  CHECK(BestBounds(HistogramOf({1, 2, 3, 4}), 3) == Bounds{1, 2, 4});
}

TEST_CASE("sums of bounds above 2^64 do not overflow", "[bounds]") {
  constexpr std::int64_t kLargest = std::int64_t{1} << 40;
  ValueHistogram histogram;
  for (int round = 0; round < 64; ++round) histogram.Add(Values(1 << 20, kLargest / 2));
  for (int round = 0; round < 32; ++round) histogram.Add(Values(1 << 20, kLargest - 1));
  histogram.Add(Values{kLargest});
  CHECK(BestBounds(histogram, 2) == Bounds{kLargest / 2, kLargest});
}

TEST_CASE("no values have no bounds", "[bounds]") {
  const ValueHistogram histogram = HistogramOf({});
  CHECK(histogram.Entries().empty());
  CHECK(histogram.largest() == 0);
  CHECK(BestBounds(histogram, 16).empty());
  CHECK(BucketCounts(histogram, Bounds{}).empty());
}

}  // namespace
}  // namespace millrace::test
