// Whether all entries of a row are drawn equally often, and all pairs and sets of them. Keys are
// fixed, so that results are always the same.
#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <numeric>
#include <vector>

#include "server/sampling/place_draws.h"
#include "tests/unit/common/epoch/statistics.h"

namespace millrace::test {
namespace {

constexpr std::uint32_t kDraws = 1'000'000;
constexpr std::uint64_t kKey = 0x9E3779B97F4A7C15;
/// The tests below have about 60 p-values. None may be below this, nor above 1 less this.
constexpr double kUnlikely = 1e-4;

void CheckLikely(double p) {
  CHECK(p > kUnlikely);
  CHECK(p < 1 - kUnlikely);
}

/// Calls `use` with the places of each of some rows with `entries` entries, all with other numbers.
template <class Use>
void ForEachRow(std::uint32_t entries, std::uint32_t fanout, bool replace, Use use) {
  const std::uint32_t rows_at_once = 4000;
  PlaceDraws draws;
  std::vector<DrawnRow> rows;
  std::vector<std::uint32_t> places(std::size_t{rows_at_once} * fanout + kDrawSlack);
  const std::uint32_t count = kDraws / fanout;
  for (std::uint32_t row = 0; row < count;) {
    rows.clear();
    for (; row < count && rows.size() < rows_at_once; ++row) rows.push_back({entries, row});
    draws.Draw(rows, {kKey, 0, fanout, replace}, places.data());
    for (std::size_t i = 0; i < rows.size(); ++i) use(places.data() + i * fanout);
  }
}

double ChiSquare(const std::vector<std::uint64_t>& counts, const std::vector<double>& shares) {
  const double all = static_cast<double>(std::accumulate(counts.begin(), counts.end(), 0ULL));
  double statistic = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const double expected = all * shares[i];
    statistic += std::pow(static_cast<double>(counts[i]) - expected, 2) / expected;
  }
  return statistic;
}

std::vector<double> Equal(std::size_t cells) {
  return std::vector<double>(cells, 1.0 / static_cast<double>(cells));
}

TEST_CASE("every entry of a row is drawn equally often", "[neighbors][statistics]") {
  const std::uint32_t d = GENERATE(11u, 100u, 40'000u);
  const std::uint32_t fanout = GENERATE(1u, 3u, 10u, 40u, 80u);
  const bool replace = GENERATE(false, true);
  if (!replace && fanout >= d) return;
  INFO(fanout << " of " << d << (replace ? ", with replacement" : ""));
  std::vector<std::uint64_t> counts(d);
  ForEachRow(d, fanout, replace, [&](const std::uint32_t* places) {
    for (std::uint32_t i = 0; i < fanout; ++i) ++counts[places[i]];
  });
  // Without replacement the counts vary less: entries of a row exclude each other.
  const double vary = replace ? 1 : static_cast<double>(d - fanout) / (d - 1);
  CheckLikely(ChiSquareP(ChiSquare(counts, Equal(d)) / vary, d - 1));
}

TEST_CASE("every set of entries is drawn equally often", "[neighbors][statistics]") {
  // All sets of 3 of 11, and of 2 of 100.
  std::map<std::vector<std::uint32_t>, std::uint64_t> sets;
  for (const auto& [d, fanout] : {std::pair(11u, 3u), std::pair(11u, 10u), std::pair(100u, 2u)}) {
    sets.clear();
    ForEachRow(d, fanout, false, [&sets, count = fanout](const std::uint32_t* places) {
      ++sets[std::vector<std::uint32_t>(places, places + count)];
    });
    const std::size_t cells = d == 100 ? 4950 : fanout == 3 ? 165 : 11;
    INFO(fanout << " of " << d);
    REQUIRE(sets.size() == cells);
    std::vector<std::uint64_t> counts;
    for (const auto& [set, count] : sets) counts.push_back(count);
    CheckLikely(ChiSquareP(ChiSquare(counts, Equal(cells)), static_cast<double>(cells - 1)));
  }
}

TEST_CASE("pairs of places in a row are drawn as often as they should be",
          "[neighbors][statistics]") {
  const std::uint32_t d = GENERATE(11u, 100u, 40'000u);
  const bool replace = GENERATE(false, true);
  // Places of long rows are taken together in groups.
  const std::uint32_t groups = std::min(d, 50u);
  std::vector<double> of_group(groups);
  for (std::uint32_t i = 0; i < d; ++i) of_group[std::uint64_t{i} * groups / d] += 1;
  std::vector<std::uint64_t> counts(std::size_t{groups} * (groups + 1) / 2);
  std::vector<double> shares(counts.size());
  const auto cell = [](std::uint64_t a, std::uint64_t b) { return b * (b + 1) / 2 + a; };
  const double all = replace ? static_cast<double>(d) * d : static_cast<double>(d) * (d - 1);
  for (std::uint32_t b = 0; b < groups; ++b) {
    for (std::uint32_t a = 0; a <= b; ++a) {
      const double ordered =
          a < b ? 2 * of_group[a] * of_group[b] : of_group[a] * (of_group[a] - (replace ? 0 : 1));
      shares[cell(a, b)] = ordered / all;
    }
  }
  ForEachRow(d, 2, replace, [&](const std::uint32_t* places) {
    ++counts[cell(std::uint64_t{places[0]} * groups / d, std::uint64_t{places[1]} * groups / d)];
  });
  std::vector<std::uint64_t> possible_counts;
  std::vector<double> possible;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (shares[i] == 0) {
      CHECK(counts[i] == 0);
      continue;
    }
    possible_counts.push_back(counts[i]);
    possible.push_back(shares[i]);
  }
  INFO(d << (replace ? ", with replacement" : ""));
  CheckLikely(
      ChiSquareP(ChiSquare(possible_counts, possible), static_cast<double>(possible.size() - 1)));
}

TEST_CASE("the places of a row say nothing about those of the next one, of another hop or key",
          "[neighbors][statistics]") {
  constexpr std::uint32_t kEntries = 50;
  const std::size_t other = GENERATE(0u, 1u, 2u, 3u);
  INFO(other);
  std::vector<std::uint64_t> counts(std::size_t{kEntries} * kEntries);
  PlaceDraws draws;
  std::vector<DrawnRow> rows(kDraws);
  for (std::uint32_t i = 0; i < kDraws; ++i) rows[i] = {kEntries, i};
  std::vector<std::uint32_t> places(kDraws + kDrawSlack);
  draws.Draw(rows, {kKey, 0, 1, false}, places.data());
  if (other == 0) std::rotate(rows.begin(), rows.begin() + 1, rows.end());
  std::vector<std::uint32_t> others(kDraws + kDrawSlack);
  draws.Draw(rows, {other == 3 ? kKey + 1 : kKey, other == 2 ? 1u : 0u, 1, false, other == 1},
             others.data());
  for (std::uint32_t i = 0; i < kDraws; ++i) ++counts[places[i] * kEntries + others[i]];
  CheckLikely(
      ChiSquareP(ChiSquare(counts, Equal(counts.size())), static_cast<double>(counts.size() - 1)));
}

}  // namespace
}  // namespace millrace::test
