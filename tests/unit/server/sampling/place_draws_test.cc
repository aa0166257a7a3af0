#include "server/sampling/place_draws.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "server/sampling/eight_draws.h"
#include "server/sampling/philox.h"
#include "server/source/keyed_order.h"
#include "tests/support/skip.h"
#include "tests/unit/server/sampling/plain_neighbors.h"

namespace millrace::test {
namespace {

using Places = std::vector<std::uint32_t>;

/// The places of a row by each of the ways in which they are found, which all have to agree.
Places PlacesOf(const DrawnRow& row, const DrawOptions& options) {
  PlaceDraws draws;
  Places plain(options.fanout);
  draws.DrawPlainly({&row, 1}, options, plain.data());
  // Eight equal rows are drawn at once by the instructions of newer processors, the ninth alone.
  const std::vector<DrawnRow> rows(9, row);
  Places all(rows.size() * options.fanout + kDrawSlack);
  draws.Draw(rows, options, all.data());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    CHECK(std::equal(plain.begin(), plain.end(),
                     all.begin() + static_cast<std::ptrdiff_t>(i * options.fanout)));
  }
  return plain;
}

TEST_CASE("words of Philox are the known answers of Random123", "[neighbors]") {
  static_assert(Philox4x32(0, {0, 0, 0, 0}) ==
                PhiloxWords{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  constexpr std::uint32_t kOnes = 0xffffffff;
  CHECK(Philox4x32(~std::uint64_t{0}, {kOnes, kOnes, kOnes, kOnes}) ==
        PhiloxWords{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(Philox4x32(0x299f31d0a4093822, {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}) ==
        PhiloxWords{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("some recorded places are drawn", "[neighbors]") {
  const DrawOptions fifteen = {
      .key = 20261, .hop = 0, .fanout = 15, .replace = false, .relation = 1};
  CHECK(PlacesOf({.entries = 20, .number = 2}, fifteen) ==
        Places{0, 1, 3, 4, 5, 6, 7, 9, 10, 11, 12, 13, 14, 16, 19});
  CHECK(PlacesOf({.entries = 2, .number = 2},
                 {.key = 20261, .hop = 0, .fanout = 5, .replace = true, .relation = 1}) ==
        Places{0, 1, 1, 1, 1});
  CHECK(PlacesOf({.entries = 4, .number = 2},
                 {.key = 20261, .hop = 0, .fanout = 3, .replace = false, .relation = 1}) ==
        Places{1, 2, 3});
  CHECK(PlacesOf({.entries = 1000, .number = 5},
                 {.key = 20260, .hop = 1, .fanout = 9, .replace = true, .relation = 0}) ==
        Places{86, 245, 555, 556, 566, 699, 768, 788, 873});
  CHECK(*DeriveSeed(0, "neighbors", 0) == 8281608856060581505u);
  CHECK(*DeriveSeed(~std::uint64_t{0}, "example", 20260) == 16466174315225990064u);
}

TEST_CASE("words, draws and places are those that are recorded", "[neighbors][golden]") {
  const std::string path = SharedDirOrSkip() + "/golden-graphs/words.json";
  std::ifstream file(path);
  if (!file) SkipTest("no " + path);
  const auto recorded = nlohmann::json::parse(file);
  for (const auto& one : recorded["philox4x32_10"]) {
    CHECK(Philox4x32(one["key"].get<std::uint64_t>(), one["counter"].get<PhiloxCounter>()) ==
          one["words"].get<PhiloxWords>());
  }
  for (const auto& one : recorded["derive"]) {
    CHECK(*DeriveSeed(one["seed"].get<std::uint64_t>(), one["part"].get<std::string>(),
                      one["i"].get<std::uint64_t>()) == one["value"].get<std::uint64_t>());
  }
  const auto row_of = [](const nlohmann::json& one, const char* entries) {
    return DrawnRow{one[entries].get<std::uint32_t>(), one["number"].get<std::uint32_t>()};
  };
  std::uint32_t rejected = 0;
  for (const auto& one : recorded["below"]) {
    INFO(one.dump());
    auto values = one["values"].get<Places>();
    const DrawnRow row = row_of(one, "m");
    DrawOptions options = {.key = one["key"].get<std::uint64_t>(),
                           .hop = one["hop"].get<std::uint32_t>(),
                           .fanout = static_cast<std::uint32_t>(values.size()),
                           .replace = true,
                           .relation = one["relation"].get<std::uint32_t>()};
    PlainWords words(options.key, row.number, options.relation, options.hop);
    for (const std::uint32_t value : values) CHECK(words.Below(row.entries) == value);
    CHECK(words.used() == one["words_used"].get<std::uint32_t>());
    rejected += words.used() - options.fanout;
    std::sort(values.begin(), values.end());
    CHECK(PlacesOf(row, options) == values);
  }
  CHECK(rejected > 0);
  std::size_t drawn = 0;
  for (const auto& one : recorded["choose"]) {
    INFO(one.dump());
    const auto d = one["d"].get<std::uint64_t>();
    const auto f = one["f"].get<std::int64_t>();
    const bool replace = one["replace"].get<bool>();
    const DrawnRow row = row_of(one, "d");
    const auto key = one["key"].get<std::uint64_t>();
    const auto hop = one["hop"].get<std::uint32_t>();
    const auto relation = one["relation"].get<std::uint32_t>();
    const auto places = one["places"].get<Places>();
    CHECK(PlainPlaces(PlainWords(key, row.number, relation, hop), d, f, replace) == places);
    if (d == 0 || f < 1 || (!replace && d <= static_cast<std::uint64_t>(f))) continue;
    ++drawn;
    CHECK(PlacesOf(row, {key, hop, static_cast<std::uint32_t>(f), replace, relation}) == places);
  }
  CHECK(drawn > 5);
}

/// A number of entries that is more than `least`: few, many, or so many that about half of the
/// words are left out.
std::uint32_t AnyEntries(std::mt19937_64& random, std::uint32_t least) {
  constexpr std::uint32_t kMost = std::numeric_limits<std::uint32_t>::max();
  switch (random() % 6) {
    case 0:
      return least + 1;
    case 1:
      return least + 1 + static_cast<std::uint32_t>(random() % 8);
    case 2:
      return least + 1 + static_cast<std::uint32_t>(random() % 100'000);
    case 3:
      return (1u << 31) + static_cast<std::uint32_t>(random() % 100);
    case 4:
      return kMost - static_cast<std::uint32_t>(random() % 100);
    default:
      return std::max(least + 1, static_cast<std::uint32_t>(random()));
  }
}

TEST_CASE("places are the same with and without the instructions of newer processors",
          "[neighbors]") {
  std::mt19937_64 random(20260);
  PlaceDraws draws;
  for (std::uint32_t fanout = 1; fanout <= 40; ++fanout) {
    for (int round = 0; round < 24; ++round) {
      const DrawOptions options = {random(), static_cast<std::uint32_t>(random() % 4), fanout,
                                   round % 2 == 1, static_cast<std::uint32_t>(random() % 3)};
      std::vector<DrawnRow> rows(random() % 40);
      for (DrawnRow& row : rows) {
        row.entries = AnyEntries(random, options.replace ? 0 : fanout);
        row.number = static_cast<std::uint32_t>(random());
      }
      INFO("fan-out " << fanout << ", round " << round);
      // A guard behind the last value that may be written.
      Places got(rows.size() * fanout + kDrawSlack + 1, 7);
      Places plain(rows.size() * fanout + 1, 7);
      draws.Draw(rows, options, got.data());
      draws.DrawPlainly(rows, options, plain.data());
      REQUIRE(std::equal(plain.begin(), plain.end() - 1, got.begin()));
      CHECK(got.back() == 7);
      CHECK(plain.back() == 7);
      for (std::size_t i = 0; i < rows.size(); ++i) {
        const DrawnRow& row = rows[i];
        const Places expected =
            PlainPlaces(PlainWords(options.key, row.number, options.relation, options.hop),
                        row.entries, fanout, options.replace);
        REQUIRE(std::equal(expected.begin(), expected.end(),
                           got.begin() + static_cast<std::ptrdiff_t>(i * fanout)));
      }
    }
  }
}

TEST_CASE("large fan-outs are drawn as small ones are", "[neighbors]") {
  PlaceDraws draws;
  std::mt19937_64 random(1);
  for (const std::uint32_t fanout : {63u, 64u, 65u, 66u, 500u, 5000u}) {
    for (const bool replace : {false, true}) {
      for (const std::uint32_t more : {1u, 2u, 1000u, 1u << 31, (1u << 31) + (1u << 30)}) {
        const DrawOptions options = {random(), 2, fanout, replace};
        const DrawnRow row = {fanout + more, static_cast<std::uint32_t>(random())};
        Places got(fanout);  // these are drawn plainly, which needs no more room
        draws.Draw({&row, 1}, options, got.data());
        INFO("fan-out " << fanout << " of " << row.entries);
        CHECK(got ==
              PlainPlaces(PlainWords(options.key, row.number, 0, 2), row.entries, fanout, replace));
      }
    }
  }
}

TEST_CASE("a row's places depend on its key, number, relation and hop", "[neighbors]") {
  const DrawnRow row = {1 << 20, 3};
  const DrawOptions options = {.key = 5, .hop = 1, .fanout = 8, .replace = false, .relation = 1};
  const Places places = PlacesOf(row, options);
  CHECK(PlacesOf(row, options) == places);
  CHECK(PlacesOf({1 << 20, 4}, options) != places);
  for (const std::uint64_t key : {std::uint64_t{6}, 5 + (std::uint64_t{1} << 32)}) {
    CHECK(PlacesOf(row, {key, 1, 8, false, 1}) != places);
  }
  CHECK(PlacesOf(row, {5, 2, 8, false, 1}) != places);
  CHECK(PlacesOf(row, {5, 1, 8, false, 2}) != places);
}

}  // namespace
}  // namespace millrace::test
