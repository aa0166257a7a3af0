#include <catch2/catch.hpp>

#include <algorithm>
#include <map>
#include <span>
#include <vector>

#include <rapidcheck.h>
#include <rapidcheck/catch.h>

#include "server/plan/order/bounds.h"

namespace millrace::test {
namespace {

using Entries = std::vector<ValueHistogram::Entry>;
using ManyValues = std::vector<std::int64_t>;

constexpr std::int64_t kMost = std::int64_t{1} << 40;

/// The groups of values as the rule has them.
Entries PlainEntries(const ManyValues& values) {
  for (unsigned t = 0;; ++t) {
    std::map<std::uint64_t, ValueHistogram::Entry> groups;
    for (const std::int64_t value : values) {
      const auto v = static_cast<std::uint64_t>(value);
      ValueHistogram::Entry& group = groups[(v + (std::uint64_t{1} << t) - 1) >> t];
      group.largest = std::max(group.largest, v);
      ++group.count;
    }
    if (groups.size() > ValueHistogram::kMaxEntries) continue;
    Entries entries;
    for (const auto& [number, group] : groups) entries.push_back(group);
    return entries;
  }
}

/// Adds values in pieces of unequal lengths.
Entries EntriesOf(const ManyValues& values) {
  ValueHistogram histogram;
  std::size_t piece = 1;
  for (std::size_t first = 0; first < values.size(); first += piece, piece = piece * 7 % 1009) {
    histogram.Add(std::span(values).subspan(first, std::min(piece, values.size() - first)));
  }
  CHECK(histogram.count() == values.size());
  return histogram.Entries();
}

/// `count` values that differ by `step`, the first one `first`, in an order that mixes them.
ManyValues Progression(std::int64_t count, std::int64_t step, std::int64_t first = 0) {
  ManyValues values;
  for (std::int64_t i = 0; i < count; ++i) values.push_back(first + i * 48'271 % count * step);
  return values;
}

TEST_CASE("a histogram has each value and how often it occurs", "[histogram]") {
  rc::prop("for runs of values", [] {
    ManyValues values;
    for (const auto value : *rc::gen::container<ManyValues>(rc::gen::inRange<int>(0, 30))) {
      values.insert(values.end(), static_cast<std::size_t>(*rc::gen::inRange(1, 5)),
                    value * kMost / 30);
    }
    ValueHistogram histogram;
    histogram.Add(values);
    RC_ASSERT(histogram.Entries() == PlainEntries(values));
  });
}

TEST_CASE("65,536 distinct values are each an entry", "[histogram]") {
  const ManyValues values = Progression(65'536, 3);
  const Entries entries = EntriesOf(values);
  CHECK(entries.size() == 65'536);
  CHECK(entries == PlainEntries(values));
}

TEST_CASE(
    "values that agree in the quotient by a power of 2 are one entry if too many are distinct",
    "[histogram]") {
  ManyValues values;
  SECTION("one value too many") { values = Progression(65'537, 1); }
  SECTION("one value too many, and no neighbours") { values = Progression(65'537, 7, 5); }
  SECTION("each value often") {
    for (int round = 0; round < 3; ++round) {
      const ManyValues some = Progression(100'003, 9, round);
      values.insert(values.end(), some.begin(), some.end());
    }
  }
  SECTION("values up to the largest") { values = Progression(100'003, kMost / 100'002); }
  SECTION("few large values beside many small ones") {
    values = Progression(131'101, 1);
    for (const std::int64_t large : {kMost, kMost - 1, kMost / 3}) values.push_back(large);
  }
  const Entries expected = PlainEntries(values);
  CHECK(EntriesOf(values) == expected);
  std::sort(values.begin(), values.end());
  CHECK(EntriesOf(values) == expected);
  std::reverse(values.begin(), values.end());
  CHECK(EntriesOf(values) == expected);
}

TEST_CASE("values above the limit are only counted", "[histogram]") {
  ValueHistogram histogram(10);
  histogram.Add(ManyValues{3, 10, 11, 11, 40, 3, 12});
  CHECK(histogram.Entries() == Entries{{3, 2}, {10, 1}});
  CHECK(histogram.count() == 3);
  CHECK(histogram.above() == 4);
  CHECK(histogram.largest() == 40);
}

TEST_CASE("counts of buckets are those of the values", "[histogram]") {
  ValueHistogram histogram;
  histogram.Add(ManyValues{0, 1, 1, 2, 5, 6, 6, 9, 20});
  const std::vector<std::uint64_t> bounds{0, 4, 6, 7, 10};
  CHECK(BucketCounts(histogram, bounds) == std::vector<std::uint64_t>{1, 3, 3, 0, 1});
}

TEST_CASE("counts of the best bounds are exact for grouped values", "[histogram]") {
  const ManyValues values = Progression(100'003, 9);
  ValueHistogram histogram;
  histogram.Add(values);
  const std::vector<std::uint64_t> bounds = BestBounds(histogram, 16);
  std::vector<std::uint64_t> counts(16, 0);
  for (const std::int64_t value : values) {
    const auto bound =
        std::lower_bound(bounds.begin(), bounds.end(), static_cast<std::uint64_t>(value));
    REQUIRE(bound != bounds.end());
    ++counts[static_cast<std::size_t>(bound - bounds.begin())];
  }
  CHECK(BucketCounts(histogram, bounds) == counts);
}

}  // namespace
}  // namespace millrace::test
