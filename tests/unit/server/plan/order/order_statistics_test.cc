// Tests whether block orders, batches of buckets and mixes look as if they were drawn at random:
// over 1,000 fixed seeds, the p-values of each statistic must themselves be uniform
// (Kolmogorov-Smirnov at 0.1 %). The permutation below them has tests of its own
// (permutation_statistics_test.cc); here a place that has the seed of another one would be seen.

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "server/plan/order/bucket_order.h"
#include "server/plan/order/classes.h"
#include "server/plan/order/mix_order.h"
#include "server/plan/order/place_order.h"
#include "server/source/keyed_order.h"
#include "server/source/order.h"
#include "tests/unit/common/epoch/statistics.h"

namespace millrace::test {
namespace {

constexpr std::uint64_t kOrderSeeds = 1000;

/// How often each of some cells was hit in independent trials, each as likely as every time.
class Cells {
 public:
  Cells(std::uint64_t rows, std::uint64_t columns) : columns_(columns), counts_(rows * columns) {}

  void Hit(std::uint64_t row, std::uint64_t column) { ++counts_[row * columns_ + column]; }
  /// Adds a p-value for each cell, `probability(column)` being that of a hit in one trial.
  template <class Probability>
  void AddP(std::uint64_t trials, const Probability& probability, std::vector<double>& p_values) {
    for (std::size_t i = 0; i < counts_.size(); ++i) {
      p_values.push_back(BinomialP(counts_[i], trials, probability(i % columns_), uniform_.Next()));
    }
  }
  /// Whether the cells look as if each had been hit with this probability in each trial.
  double Distance(std::uint64_t trials, double probability) {
    std::vector<double> p_values;
    AddP(
        trials, [&](std::uint64_t) { return probability; }, p_values);
    return KolmogorovSmirnov(p_values);
  }

 private:
  std::uint64_t columns_;
  std::vector<std::uint64_t> counts_;
  Uniform uniform_;
};

/// Whether counts look as if each were Poisson-distributed with a mean.
class Coincidences {
 public:
  explicit Coincidences(double mean) : mean_(mean) {}

  void Add(std::uint64_t count) { p_values_.push_back(PoissonP(count, mean_, uniform_.Next())); }
  double Distance() const { return KolmogorovSmirnov(p_values_); }

 private:
  double mean_;
  std::vector<double> p_values_;
  Uniform uniform_;
};

std::vector<OrderRow> RowsOfEpoch(const Order& order, std::uint64_t epoch) {
  std::vector<OrderRow> rows;
  order.NewReader()->Rows(epoch, {0, static_cast<std::uint32_t>(order.units())}, rows);
  return rows;
}

// --- blocks ---

constexpr std::uint64_t kBlock = 8;
constexpr std::uint64_t kBlocks = 32;
constexpr std::uint64_t kRows = kBlock * kBlocks;

std::vector<OrderRow> BlockRows(std::uint64_t seed, std::uint64_t epoch, std::uint64_t window) {
  return RowsOfEpoch(ExampleOrder(PlaceOrder(kRows, seed, kBlock, window)), epoch);
}

TEST_CASE("every slot has every block equally often over the seeds", "[statistics][block]") {
  Cells cells(kBlocks, kBlocks);
  for (std::uint64_t seed = 0; seed < kOrderSeeds; ++seed) {
    const std::vector<OrderRow> rows = BlockRows(seed, 0, 1);
    for (std::uint64_t slot = 0; slot < kBlocks; ++slot) {
      cells.Hit(slot, rows[slot * kBlock].row / kBlock);
    }
  }
  CHECK(cells.Distance(kOrderSeeds, 1.0 / kBlocks) < 1);
}

TEST_CASE("every place of a block order has every row equally often over the seeds",
          "[statistics][block]") {
  for (const std::uint64_t window : {1u, 4u, 32u}) {
    Cells cells(kRows, kRows);
    for (std::uint64_t seed = 0; seed < kOrderSeeds; ++seed) {
      const std::vector<OrderRow> rows = BlockRows(seed, 1, window);
      for (std::uint64_t place = 0; place < kRows; ++place) cells.Hit(place, rows[place].row);
    }
    INFO("window " << window);
    CHECK(cells.Distance(kOrderSeeds, 1.0 / kRows) < 1);
  }
}

TEST_CASE("as many neighbours of a block follow one another as by chance", "[statistics][block]") {
  constexpr std::uint64_t kWindow = 8;
  constexpr double kPlaces = kWindow * kBlock;  // of a window
  Coincidences coincidences(2 * kBlocks * (kBlock - 1) / kPlaces);
  for (std::uint64_t seed = 0; seed < kOrderSeeds; ++seed) {
    const std::vector<OrderRow> rows = BlockRows(seed, 2, kWindow);
    std::uint64_t count = 0;
    for (std::uint64_t place = 1; place < kRows; ++place) {
      const auto [less, more] = std::minmax(rows[place - 1].row, rows[place].row);
      count += more == less + 1 && less / kBlock == more / kBlock;
    }
    coincidences.Add(count);
  }
  CHECK(coincidences.Distance() < 1);
}

/// The order of the places of a window, apart from which blocks it has.
std::vector<std::uint64_t> OrderOfWindow(std::uint64_t seed, std::uint64_t epoch,
                                         std::uint64_t window, std::uint64_t blocks) {
  const std::vector<OrderRow> rows = BlockRows(seed, epoch, blocks);
  const KeyedOrder slots(seed, epoch, kBlocks);
  std::vector<std::uint64_t> order;
  for (std::uint64_t i = 0; i < blocks * kBlock; ++i) {
    const std::uint64_t row = rows[window * blocks * kBlock + i].row;
    order.push_back((slots.Inverse(row / kBlock) - window * blocks) * kBlock + row % kBlock);
  }
  return order;
}

std::uint64_t Agreements(const std::vector<std::uint64_t>& a, const std::vector<std::uint64_t>& b) {
  std::uint64_t count = 0;
  for (std::size_t i = 0; i < a.size(); ++i) count += a[i] == b[i];
  return count;
}

TEST_CASE("windows agree with each other as often as by chance", "[statistics][block]") {
  Coincidences windows(1);
  Coincidences epochs(1);
  Coincidences seeds(1);
  for (std::uint64_t seed = 0; seed < kOrderSeeds; ++seed) {
    const auto first = OrderOfWindow(seed, 0, 0, 8);
    windows.Add(Agreements(first, OrderOfWindow(seed, 0, 1, 8)));
    epochs.Add(Agreements(first, OrderOfWindow(seed, 1, 0, 8)));
    seeds.Add(Agreements(first, OrderOfWindow(seed + 1, 0, 0, 8)));
  }
  CHECK(windows.Distance() < 1);
  CHECK(epochs.Distance() < 1);
  CHECK(seeds.Distance() < 1);
}

// --- batches of buckets ---

constexpr std::uint64_t kClasses = 3;
constexpr std::uint64_t kRowsOf[kClasses] = {60, 60, 40};
constexpr std::uint32_t kSizeOf[kClasses] = {2, 2, 5};
constexpr std::uint64_t kBatchesOf[kClasses] = {30, 30, 8};
constexpr std::uint64_t kBatches = 68;

/// Rows 0 to 59 are of class 0, rows 60 to 119 of class 1, the others of class 2.
const std::shared_ptr<const Classes>& ThreeClasses() {
  static const auto classes = [] {
    std::vector<std::int64_t> values;
    for (std::uint64_t c = 0; c < kClasses; ++c) {
      values.insert(values.end(), kRowsOf[c], static_cast<std::int64_t>(c));
    }
    const std::vector<std::uint64_t> bounds = {0, 1, 2};
    Classes::Builder builder(bounds, kRowsOf, values.size());
    builder.Add(values);
    return std::make_shared<const Classes>(std::move(builder).Build().value());
  }();
  return classes;
}

/// The rows of each batch.
std::vector<std::vector<std::uint64_t>> BucketBatches(std::uint64_t seed, std::uint64_t epoch,
                                                      std::uint64_t together = 1) {
  const BucketOrder order(
      ThreeClasses(),
      {.sizes = {kSizeOf[0], kSizeOf[1], kSizeOf[2]}, .together = together, .seed = seed});
  std::vector<std::vector<std::uint64_t>> batches(order.units());
  const auto reader = order.NewReader();
  std::vector<OrderRow> rows;
  for (std::uint64_t unit = 0; unit < batches.size(); ++unit) {
    rows.clear();
    reader->Rows(epoch, {unit, 1}, rows);
    for (const OrderRow& row : rows) batches[unit].push_back(row.row);
  }
  return batches;
}

std::uint64_t ClassOf(const std::vector<std::uint64_t>& batch) {
  return std::min<std::uint64_t>(batch[0] / 60, 2);
}

TEST_CASE("every unit has a batch of each bucket as often as the bucket has batches",
          "[statistics][bucket]") {
  for (const std::uint64_t together : {1u, 2u}) {
    Cells cells(kBatches, kClasses);
    for (std::uint64_t seed = 0; seed < kOrderSeeds; ++seed) {
      const auto batches = BucketBatches(seed, 0, together);
      for (std::uint64_t unit = 0; unit < kBatches; ++unit) cells.Hit(unit, ClassOf(batches[unit]));
    }
    std::vector<double> p_values;
    cells.AddP(
        kOrderSeeds, [](std::uint64_t c) { return static_cast<double>(kBatchesOf[c]) / kBatches; },
        p_values);
    INFO("together " << together);
    CHECK(KolmogorovSmirnov(p_values) < 1);
  }
}

TEST_CASE("every row comes in every batch, and at every place of one, equally often",
          "[statistics][bucket]") {
  Cells in_batch(kBatches, 160);
  std::vector<Cells> in_place;
  for (const std::uint32_t size : kSizeOf) in_place.emplace_back(160, size);
  for (std::uint64_t seed = 0; seed < kOrderSeeds; ++seed) {
    const auto batches = BucketBatches(seed, 1);
    for (std::uint64_t unit = 0; unit < kBatches; ++unit) {
      const std::uint64_t c = ClassOf(batches[unit]);
      for (std::size_t place = 0; place < kSizeOf[c]; ++place) {
        in_batch.Hit(unit, batches[unit][place]);
        in_place[c].Hit(batches[unit][place], place);
      }
    }
  }
  CHECK(in_batch.Distance(kOrderSeeds, 1.0 / kBatches) < 1);
  // Rows of the other classes have empty cells there.
  std::uint64_t first = 0;
  for (std::uint64_t c = 0; c < kClasses; ++c) {
    std::vector<double> p_values;
    in_place[c].AddP(
        kOrderSeeds, [&](std::uint64_t) { return 1.0 / kSizeOf[c]; }, p_values);
    const auto begin = p_values.begin() + static_cast<std::ptrdiff_t>(first * kSizeOf[c]);
    first += kRowsOf[c];
    CHECK(KolmogorovSmirnov({begin, begin + static_cast<std::ptrdiff_t>(kRowsOf[c] * kSizeOf[c])}) <
          1);
  }
}

/// For each row of the classes 0 and 1, the other row of its batch, both numbered in their class.
std::vector<std::uint64_t> Partners(std::uint64_t seed, std::uint64_t epoch) {
  std::vector<std::uint64_t> partners(120);
  for (const auto& batch : BucketBatches(seed, epoch)) {
    if (ClassOf(batch) == 2) continue;
    partners[batch[0]] = batch[1] % 60;
    partners[batch[1]] = batch[0] % 60;
  }
  return partners;
}

/// How many pairs of rows share a batch in both: 60 partners in each.
std::uint64_t CommonPairs(const std::vector<std::uint64_t>& a, std::size_t from_a,
                          const std::vector<std::uint64_t>& b, std::size_t from_b) {
  std::uint64_t count = 0;
  for (std::size_t i = 0; i < 60; ++i) count += a[from_a + i] == b[from_b + i];
  return count / 2;
}

TEST_CASE("rows share a batch again, in other epochs and buckets, as often as by chance",
          "[statistics][bucket]") {
  constexpr double kMean = 30.0 / 59;  // pairs of an epoch, each kept with this probability
  Coincidences epochs(kMean);
  Coincidences buckets(kMean);
  Coincidences seeds(kMean);
  for (std::uint64_t seed = 0; seed < kOrderSeeds; ++seed) {
    const auto partners = Partners(seed, 0);
    epochs.Add(CommonPairs(partners, 0, Partners(seed, 1), 0));
    buckets.Add(CommonPairs(partners, 0, partners, 60));
    seeds.Add(CommonPairs(partners, 60, Partners(seed + 1, 0), 60));
  }
  CHECK(epochs.Distance() < 1);
  CHECK(buckets.Distance() < 1);
  CHECK(seeds.Distance() < 1);
}

// --- mixes ---

constexpr std::uint64_t kSlots = 70;  // of a block with the weights 7 and 3
constexpr std::uint64_t kSecond = 21;

/// Four blocks of two branches, 7 to 3.
std::vector<OrderRow> MixRows(std::uint64_t seed, std::uint64_t epoch) {
  std::vector<PlaceOrder> branches = {PlaceOrder(500, DeriveSeed(1, "branch", 0)),
                                      PlaceOrder(500, DeriveSeed(1, "branch", 1))};
  const auto order =
      MixOrder::Make(std::move(branches), {.weights = {7, 3}, .seed = seed, .rows = 4 * kSlots})
          .value();
  REQUIRE(order->shares().block() == kSlots);
  return RowsOfEpoch(*order, epoch);
}

TEST_CASE("a branch comes at every place of a block, and at each two, equally often",
          "[statistics][mix]") {
  constexpr double kShare = static_cast<double>(kSecond) / kSlots;
  Cells cells(4 * kSlots, 1);
  Cells pairs(4 * kSlots, 1);
  for (std::uint64_t seed = 0; seed < kOrderSeeds; ++seed) {
    const std::vector<OrderRow> rows = MixRows(seed, 0);
    for (std::uint64_t place = 0; place < rows.size(); ++place) {
      if (rows[place].branch == 0) continue;
      cells.Hit(place, 0);
      // The next place of the block; after the last one, the first.
      const std::uint64_t next = place % kSlots + 1 < kSlots ? place + 1 : place + 1 - kSlots;
      if (rows[next].branch == 1) pairs.Hit(place, 0);
    }
  }
  CHECK(cells.Distance(kOrderSeeds, kShare) < 1);
  CHECK(pairs.Distance(kOrderSeeds, kShare * (kSecond - 1) / (kSlots - 1)) < 1);
}

TEST_CASE("blocks and epochs of a mix have a branch at the same places as often as by chance",
          "[statistics][mix]") {
  Uniform uniform;
  std::vector<double> blocks;
  std::vector<double> epochs;
  std::vector<double> seeds;
  const auto common = [&](const std::vector<OrderRow>& a, const std::vector<OrderRow>& b,
                          std::uint64_t from_b) {
    std::uint64_t count = 0;
    for (std::uint64_t i = 0; i < kSlots; ++i) count += a[i].branch & b[from_b + i].branch;
    return HypergeometricP(count, kSlots, kSecond, kSecond, uniform.Next());
  };
  for (std::uint64_t seed = 0; seed < kOrderSeeds; ++seed) {
    const std::vector<OrderRow> rows = MixRows(seed, 0);
    blocks.push_back(common(rows, rows, kSlots));
    epochs.push_back(common(rows, MixRows(seed, 1), 0));
    seeds.push_back(common(rows, MixRows(seed + 1, 0), 0));
  }
  CHECK(KolmogorovSmirnov(blocks) < 1);
  CHECK(KolmogorovSmirnov(epochs) < 1);
  CHECK(KolmogorovSmirnov(seeds) < 1);
}

TEST_CASE("passes of a branch, and branches of one dataset, agree as often as by chance",
          "[statistics][mix]") {
  constexpr std::uint64_t kOfBranch = 96;  // three whole blocks
  Coincidences branches_agree(1);
  Coincidences passes_agree(1);
  for (std::uint64_t seed = 0; seed < kOrderSeeds; ++seed) {
    std::vector<PlaceOrder> branches = {PlaceOrder(kOfBranch, DeriveSeed(seed, "branch", 0)),
                                        PlaceOrder(kOfBranch, DeriveSeed(seed, "branch", 1))};
    const auto order =
        MixOrder::Make(std::move(branches), {.weights = {1, 1}, .rows = 4 * kOfBranch}).value();
    std::vector<std::vector<std::uint64_t>> read(2);  // each has two passes
    for (const OrderRow& row : RowsOfEpoch(*order, 0)) read[row.branch].push_back(row.row);
    REQUIRE(read[0].size() == 2 * kOfBranch);
    const auto pass = [&](std::size_t branch, std::uint64_t number) {
      const auto begin = read[branch].begin() + static_cast<std::ptrdiff_t>(number * kOfBranch);
      return std::vector<std::uint64_t>(begin, begin + kOfBranch);
    };
    branches_agree.Add(Agreements(pass(0, 0), pass(1, 0)));
    passes_agree.Add(Agreements(pass(0, 0), pass(0, 1)));
  }
  CHECK(branches_agree.Distance() < 1);
  CHECK(passes_agree.Distance() < 1);
}

}  // namespace
}  // namespace millrace::test
