// What every order has to keep, whatever its form and its numbers.

#include <catch2/catch.hpp>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include <rapidcheck.h>
#include <rapidcheck/catch.h>

#include "server/plan/order/balance_order.h"
#include "server/plan/order/bucket_order.h"
#include "server/plan/order/chunks.h"
#include "server/plan/order/mix_order.h"
#include "server/plan/order/place_order.h"
#include "server/source/order.h"
#include "tests/unit/server/plan/order/list_values.h"

namespace millrace::test {
namespace {

using NumberList = std::vector<std::uint64_t>;
using EpochRows = std::vector<std::vector<OrderRow>>;  // the rows of each unit

bool operator<(const OrderRow& a, const OrderRow& b) {
  return std::pair(a.branch, a.row) < std::pair(b.branch, b.row);
}

struct Less {
  bool operator()(const OrderRow& a, const OrderRow& b) const { return a < b; }
};
using PlacesByRow = std::map<OrderRow, std::vector<UnitRow>, Less>;

OrderSeed AnySeed() {
  const auto seed = *rc::gen::inRange<std::uint64_t>(0, 1000);
  return seed < 100 ? std::nullopt : OrderSeed(seed);
}

std::uint64_t AnyEpoch() {
  return *rc::gen::oneOf(rc::gen::inRange<std::uint64_t>(0, 4),
                         rc::gen::inRange<std::uint64_t>(1u << 20, 1u << 21));
}

PlaceOrder AnyPlaces(std::uint64_t n, const OrderSeed& seed) {
  if (*rc::gen::arbitrary<bool>()) return PlaceOrder(n, seed);
  return PlaceOrder(n, seed, *rc::gen::inRange<std::uint64_t>(1, 40),
                    *rc::gen::inRange<std::uint64_t>(1, 6));
}

NumberList AnyValues(std::uint64_t n) {
  const auto most = *rc::gen::element<std::uint64_t>(1, 8, 100);
  return *rc::gen::container<NumberList>(n, rc::gen::inRange<std::uint64_t>(0, most));
}

EpochRows ReadAll(const Order& order, std::uint64_t epoch) {
  EpochRows units(order.units());
  const auto reader = order.NewReader();
  for (std::uint64_t unit = 0; unit < units.size(); ++unit) {
    reader->Rows(epoch, {unit, 1}, units[unit]);
  }
  return units;
}

PlacesByRow PlacesIn(const EpochRows& units) {
  PlacesByRow places;
  for (std::uint64_t unit = 0; unit < units.size(); ++unit) {
    for (std::uint32_t row = 0; row < units[unit].size(); ++row) {
      places[units[unit][row]].push_back({unit, row});
    }
  }
  return places;
}

/// Checks that units read in any order, several at once, and places of rows agree with an epoch
/// read in order. `rows`: how many rows each branch has.
void CheckReaders(const Order& order, std::uint64_t epoch, const EpochRows& units,
                  const NumberList& rows) {
  const PlacesByRow places = PlacesIn(units);
  const auto reader = order.NewReader();
  std::vector<UnitRow> found;
  for (std::uint32_t branch = 0; branch < rows.size(); ++branch) {
    for (std::uint64_t row = 0; row < rows[branch]; ++row) {
      found.clear();
      reader->Places(epoch, {row, branch}, found);
      const auto wanted = places.find({row, branch});
      RC_ASSERT(found == (wanted == places.end() ? std::vector<UnitRow>() : wanted->second));
    }
  }
  std::vector<OrderRow> got;
  for (int i = 0; i < 20 && !units.empty(); ++i) {
    const auto first = *rc::gen::inRange<std::uint64_t>(0, units.size());
    const auto count = *rc::gen::inRange<std::uint64_t>(0, units.size() - first + 1);
    std::vector<OrderRow> wanted;
    for (std::uint64_t unit = first; unit < first + count; ++unit) {
      wanted.insert(wanted.end(), units[unit].begin(), units[unit].end());
    }
    got.clear();
    // Another epoch in between must leave nothing behind.
    if (i % 3 == 0) reader->Rows(epoch + 1, {first, 1}, got);
    got.clear();
    reader->Rows(epoch, {first, static_cast<std::uint32_t>(count)}, got);
    RC_ASSERT(got == wanted);
  }
}

/// Checks that no row comes twice, and returns how many come.
std::uint64_t CheckNoneTwice(const EpochRows& units) {
  std::uint64_t count = 0;
  for (const auto& [row, places] : PlacesIn(units)) {
    RC_ASSERT(places.size() == 1);
    ++count;
  }
  return count;
}

TEST_CASE("plain and block orders have every row once", "[order][block]") {
  rc::prop("in every epoch", [] {
    const auto n = *rc::gen::inRange<std::uint64_t>(0, 400);
    const ExampleOrder order(AnyPlaces(n, AnySeed()));
    const std::uint64_t epoch = AnyEpoch();
    const EpochRows units = ReadAll(order, epoch);
    RC_ASSERT(units.size() == n);
    RC_ASSERT(CheckNoneTwice(units) == n);
    CheckReaders(order, epoch, units, {n});
  });
}

TEST_CASE("the rows of a block come within a window", "[order][block]") {
  rc::prop("of its blocks", [] {
    const auto n = *rc::gen::inRange<std::uint64_t>(1, 400);
    const auto block = *rc::gen::inRange<std::uint64_t>(1, 40);
    const auto window = *rc::gen::inRange<std::uint64_t>(1, 6);
    const EpochRows units =
        ReadAll(ExampleOrder(PlaceOrder(n, AnySeed(), block, window)), AnyEpoch());
    std::map<std::uint64_t, std::pair<std::uint64_t, std::uint64_t>> spans;
    for (std::uint64_t place = 0; place < n; ++place) {
      const auto [span, first] = spans.try_emplace(units[place][0].row / block, place, place);
      span->second.second = place;
    }
    for (const auto& [number, span] : spans) {
      RC_ASSERT(span.second - span.first < block * window);
    }
  });
}

TEST_CASE("batches of buckets keep class, size and budget", "[order][bucket]") {
  rc::prop("and have every row of a bucket once", [] {
    const auto n = *rc::gen::inRange<std::uint64_t>(1, 300);
    const NumberList values = AnyValues(n);
    auto cuts = *rc::gen::container<std::set<std::uint64_t>>(
        *rc::gen::inRange<std::size_t>(1, 6), rc::gen::inRange<std::uint64_t>(0, 110));
    const NumberList bounds(cuts.begin(), cuts.end());
    const std::vector<std::int64_t> signed_values(values.begin(), values.end());
    ClassCounter counter(bounds);
    counter.Add(signed_values);
    Classes::Builder builder(bounds, counter.counts(), n);
    builder.Add(signed_values);
    const std::uint64_t budget = bounds.back() + 1 + *rc::gen::inRange<std::uint64_t>(0, 300);
    BucketOrder::Options options;
    for (const std::uint64_t bound : bounds) {
      options.sizes.push_back(
          static_cast<std::uint32_t>(budget / std::max<std::uint64_t>(1, bound)));
    }
    options.keep = *rc::gen::arbitrary<bool>();
    options.together = *rc::gen::inRange<std::uint64_t>(1, 5);
    options.seed = AnySeed();
    const BucketOrder order(std::make_shared<const Classes>(std::move(builder).Build().value()),
                            options);
    const std::uint64_t epoch = AnyEpoch();
    const EpochRows units = ReadAll(order, epoch);
    const ClassFinder class_of(bounds);
    NumberList rows_of(bounds.size());
    std::uint64_t most = 0;
    for (const std::vector<OrderRow>& rows : units) {
      RC_ASSERT(!rows.empty());
      const std::size_t c = class_of(signed_values[rows[0].row]);
      RC_ASSERT(c < bounds.size());
      RC_ASSERT(rows.size() * bounds[c] <= budget);
      RC_ASSERT(options.keep || rows.size() == options.sizes[c]);
      RC_ASSERT(rows.size() <= options.sizes[c]);
      for (const OrderRow& row : rows) RC_ASSERT(class_of(signed_values[row.row]) == c);
      rows_of[c] += rows.size();
      most = std::max<std::uint64_t>(most, rows.size());
    }
    RC_ASSERT(order.max_rows() == most);
    CheckNoneTwice(units);
    for (std::size_t c = 0; c < bounds.size(); ++c) {
      const std::uint64_t all = counter.counts()[c];
      RC_ASSERT(rows_of[c] == (options.keep ? all : all / options.sizes[c] * options.sizes[c]));
    }
    CheckReaders(order, epoch, units, {n});
  });
}

TEST_CASE("batches of a class that belong together follow one another", "[order][bucket]") {
  // 10 batches of each of three classes, in runs of 5.
  std::vector<std::int64_t> values;
  for (int i = 0; i < 60; ++i) values.push_back(i % 3);
  const NumberList bounds = {0, 1, 2};
  ClassCounter counter(bounds);
  counter.Add(values);
  Classes::Builder builder(bounds, counter.counts(), values.size());
  builder.Add(values);
  const BucketOrder order(std::make_shared<const Classes>(std::move(builder).Build().value()),
                          {.sizes = {2, 2, 2}, .keep = false, .together = 5, .seed = 3});
  for (const std::uint64_t epoch : {0u, 1u, 2u}) {
    const EpochRows units = ReadAll(order, epoch);
    REQUIRE(units.size() == 30);
    for (std::size_t run = 0; run < 6; ++run) {
      for (std::size_t i = 0; i < 5; ++i) {
        CHECK(units[5 * run + i][0].row % 3 == units[5 * run][0].row % 3);
      }
    }
  }
}

TEST_CASE("balanced batches have the rows of their group once", "[order][balance]") {
  rc::prop("and are as full as batches are", [] {
    const auto n = *rc::gen::inRange<std::uint64_t>(1, 300);
    const auto size = *rc::gen::inRange<std::uint32_t>(1, 20);
    const auto group = *rc::gen::inRange<std::uint64_t>(1, 7);
    const bool keep = *rc::gen::arbitrary<bool>();
    const PlaceOrder places = AnyPlaces(n, AnySeed());
    const BalanceOrder order(places, std::make_shared<ListValues>(AnyValues(n)),
                             {.size = size, .group = group, .keep = keep});
    const std::uint64_t epoch = AnyEpoch();
    const EpochRows units = ReadAll(order, epoch);
    const EpochRows plain = ReadAll(ExampleOrder(places), epoch);
    RC_ASSERT(units.size() == n / size + (keep && n % size > 0 ? 1 : 0));
    std::uint64_t place = 0;
    for (std::uint64_t first = 0; first < units.size(); first += group) {
      const std::uint64_t end = std::min<std::uint64_t>(first + group, units.size());
      std::vector<OrderRow> dealt;
      for (std::uint64_t unit = first; unit < end; ++unit) {
        dealt.insert(dealt.end(), units[unit].begin(), units[unit].end());
        RC_ASSERT(units[unit].size() <= size);
        RC_ASSERT(keep || units[unit].size() == size);
      }
      std::vector<OrderRow> wanted;
      while (wanted.size() < dealt.size()) wanted.push_back(plain[place++][0]);
      std::sort(dealt.begin(), dealt.end(), Less());
      std::sort(wanted.begin(), wanted.end(), Less());
      RC_ASSERT(dealt == wanted);
    }
    RC_ASSERT(place == (keep ? n : n / size * size));
    CheckReaders(order, epoch, units, {n});
  });
}

TEST_CASE("balanced batches have about equal sums", "[order][balance]") {
  NumberList values;
  for (std::uint64_t i = 0; i < 64 * 32; ++i) values.push_back(1 + i * i % 1009);
  const BalanceOrder order(PlaceOrder(values.size(), 1), std::make_shared<ListValues>(values),
                           {.size = 32, .group = 64, .keep = false});
  const EpochRows units = ReadAll(order, 0);
  std::vector<std::uint64_t> sums;
  for (const auto& rows : units) {
    sums.push_back(0);
    for (const OrderRow& row : rows) sums.back() += values[row.row];
  }
  const auto [least, most] = std::minmax_element(sums.begin(), sums.end());
  // Dealt at random, the largest sum is a third above the least.
  CHECK(static_cast<double>(*most) < 1.02 * static_cast<double>(*least));
}

/// A mix with its branches' lengths.
struct AnyMix {
  NumberList rows;
  MixOrder::Options options;
  std::shared_ptr<const MixOrder> order;
};

enum class MixEnd { kRows, kAllOf, kShortest };

AnyMix MakeAnyMix(MixEnd end) {
  AnyMix mix;
  const auto branches = *rc::gen::inRange<std::size_t>(1, 4);
  std::vector<PlaceOrder> orders;
  for (std::size_t i = 0; i < branches; ++i) {
    mix.rows.push_back(*rc::gen::inRange<std::uint64_t>(1, 200));
    mix.options.weights.push_back(*rc::gen::inRange<std::uint64_t>(1, 12));
    orders.push_back(AnyPlaces(mix.rows.back(), DeriveSeed(AnySeed(), "branch", i)));
  }
  mix.options.seed = *rc::gen::inRange<std::uint64_t>(0, 100);
  switch (end) {
    case MixEnd::kRows:
      mix.options.rows = *rc::gen::inRange<std::uint64_t>(1, 400);
      break;
    case MixEnd::kAllOf:
      mix.options.all_of = *rc::gen::inRange<std::size_t>(0, branches);
      break;
    case MixEnd::kShortest:
      mix.options.shortest = true;
  }
  mix.order = MixOrder::Make(std::move(orders), mix.options).value();
  return mix;
}

AnyMix MakeAnyMix() {
  return MakeAnyMix(*rc::gen::element(MixEnd::kRows, MixEnd::kAllOf, MixEnd::kShortest));
}

TEST_CASE("a mix keeps its shares in every block", "[order][mix]") {
  rc::prop("and its numbers of rows in every epoch", [] {
    const AnyMix mix = MakeAnyMix();
    const std::uint64_t epoch = AnyEpoch();
    const EpochRows units = ReadAll(*mix.order, epoch);
    NumberList counts(mix.rows.size());
    NumberList in_block(mix.rows.size());
    for (std::uint64_t unit = 0; unit < units.size(); ++unit) {
      RC_ASSERT(units[unit].size() == 1);
      ++counts[units[unit][0].branch];
      ++in_block[units[unit][0].branch];
      if ((unit + 1) % mix.order->shares().block() != 0) continue;
      for (std::size_t i = 0; i < counts.size(); ++i) {
        RC_ASSERT(in_block[i] == mix.order->shares().OfBlock(i));
      }
      in_block.assign(counts.size(), 0);
    }
    RC_ASSERT(counts == mix.order->rows_of());
    if (mix.options.rows) RC_ASSERT(units.size() == *mix.options.rows);
    if (mix.options.all_of) {
      RC_ASSERT(counts[*mix.options.all_of] == mix.rows[*mix.options.all_of]);
    }
    CheckReaders(*mix.order, epoch, units, mix.rows);
  });
}

TEST_CASE("a mix reads every branch in whole passes", "[order][mix]") {
  rc::prop("over any number of epochs", [] {
    const AnyMix mix = MakeAnyMix();
    const auto epochs = *rc::gen::inRange<std::uint64_t>(1, 5);
    std::vector<NumberList> seen;
    for (const std::uint64_t rows : mix.rows) seen.emplace_back(rows);
    for (std::uint64_t epoch = 0; epoch < epochs; ++epoch) {
      const EpochRows units = ReadAll(*mix.order, epoch);
      if (mix.options.shortest) CheckNoneTwice(units);
      for (const auto& rows : units) ++seen[rows[0].branch][rows[0].row];
    }
    if (mix.options.shortest) return;
    for (std::size_t i = 0; i < seen.size(); ++i) {
      // The last pass may be under way: counts then differ by one.
      const auto [least, most] = std::minmax_element(seen[i].begin(), seen[i].end());
      RC_ASSERT(*most - *least <= 1);
      if (mix.options.all_of == i) RC_ASSERT(*least == epochs && *most == epochs);
    }
  });
}

TEST_CASE("an epoch of the shortest branch cannot be longer", "[order][mix]") {
  rc::prop("by one row", [] {
    const AnyMix mix = MakeAnyMix(MixEnd::kShortest);
    const NumberList more = mix.order->shares().Of(mix.order->units() + 1);
    bool fits = true;
    for (std::size_t i = 0; i < more.size(); ++i) fits = fits && more[i] <= mix.rows[i];
    RC_ASSERT_FALSE(fits);
  });
}

TEST_CASE("branches of one length that share a seed have different orders", "[order][mix]") {
  std::vector<PlaceOrder> orders = {PlaceOrder(100, DeriveSeed(0, "branch", 0)),
                                    PlaceOrder(100, DeriveSeed(0, "branch", 1))};
  const auto order = MixOrder::Make(std::move(orders), {.weights = {1, 1}, .all_of = 0}).value();
  std::vector<NumberList> read(2);
  for (const auto& rows : ReadAll(*order, 0)) read[rows[0].branch].push_back(rows[0].row);
  CHECK(read[0].size() == 100);
  CHECK(read[0] != read[1]);
}

TEST_CASE("a mix with an empty branch is refused", "[order][mix]") {
  const auto mix = MixOrder::Make({PlaceOrder(3, 0), PlaceOrder(0, 1)}, {.weights = {1, 1}});
  CHECK(mix.status().message() == "branch 1 has no rows");
}

TEST_CASE("chunks cover every element", "[order][chunk]") {
  rc::prop("and overlap as asked", [] {
    const auto lengths = *rc::gen::container<NumberList>(rc::gen::inRange<std::uint64_t>(0, 50));
    const auto size = *rc::gen::inRange<std::uint64_t>(1, 12);
    const auto step = *rc::gen::inRange<std::uint64_t>(1, size + 1);
    const Chunks chunks(lengths, {size, step});
    std::uint64_t chunk = 0;
    for (std::uint64_t row = 0; row < lengths.size(); ++row) {
      RC_ASSERT(chunks.FirstOf(row) == chunk);
      std::uint64_t covered = 0;
      for (std::uint64_t t = 0; t < Chunks::CountOf(lengths[row], {size, step}); ++t, ++chunk) {
        RC_ASSERT(chunks.At(chunk) == (Chunks::Place{row, t}));
        const auto [begin, end] = chunks.ExtentOf(t, lengths[row]);
        RC_ASSERT(begin == t * step);
        RC_ASSERT(end - begin <= size);
        RC_ASSERT(t == 0 || end > covered);
        RC_ASSERT(begin <= covered);
        covered = end;
      }
      RC_ASSERT(covered == lengths[row]);
    }
    RC_ASSERT(chunks.size() == chunk);
  });
}

TEST_CASE("any steps of any world sizes have every unit once", "[order][steps]") {
  rc::prop("until the epoch ends", [] {
    const auto n = *rc::gen::inRange<std::uint64_t>(1, 120);
    NumberList seen(n);
    Position at;
    while (at.epoch == 0) {
      const auto world = *rc::gen::inRange<std::uint32_t>(1, 9);
      const StepArithmetic steps =
          StepArithmetic::Create(
              {.examples = n, .size = 1, .keep = true, .world_size = world, .unit_rows = 7})
              .value();
      for (std::uint32_t rank = 0; rank < world; ++rank) {
        const ExampleRange units = steps.RankExamples(at, rank);
        RC_ASSERT(units.count <= 1);
        for (std::uint64_t i = 0; i < units.count; ++i) ++seen[units.first + i];
      }
      at = steps.Next(at);
    }
    RC_ASSERT(std::all_of(seen.begin(), seen.end(), [](auto count) { return count == 1; }));
  });
}

}  // namespace
}  // namespace millrace::test
