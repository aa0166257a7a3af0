// Tensors that are padded to the bound of their batch's bucket, from the pipeline's text to the
// delivered batches.

#include <catch2/catch.hpp>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "common/expand/expand.h"
#include "common/operations/consumer_program.h"
#include "server/plan/tensors/tensor_plan.h"
#include "tests/unit/server/plan/number_plans.h"

namespace millrace::test {
namespace {

/// Plans over runs of some lengths, and what a consumer makes of their batches.
class BoundPlans : public NumberPlans {
 public:
  explicit BoundPlans(const std::vector<std::int64_t>& lengths) : NumberPlans(lengths, "runs") {}

  /// The batch as it is delivered, or some of its rows.
  Result<std::shared_ptr<const DeliveredBatch>> Deliver(
      const Plan& plan, const PackedBatch& packed, std::optional<RowRange> rows = std::nullopt) {
    const Delivery delivery =
        Delivery::Make(plan.tensors(), *plan.computed()->consumer(), DType::kInt32).value();
    return Expand(packed, delivery, pool_, rows);
  }
  /// The extent to which `run` is padded in a delivered batch.
  std::uint64_t ExtentIn(const Plan& plan, const PackedBatch& packed,
                         std::optional<RowRange> rows = std::nullopt) {
    const auto delivered = Deliver(plan, packed, rows);
    INFO(delivered.status().message());
    REQUIRE(delivered.ok());
    const DeliveredTensor& run = *(*delivered)->Find("run");
    REQUIRE(run.shape.size() == 2);
    CHECK(run.shape[0] == (rows ? rows->count : packed.examples()));
    return run.shape[1];
  }

 private:
  BufferPool pool_;
};

/// 1 to 60, in a scattered order.
std::vector<std::int64_t> OneToSixty() {
  std::vector<std::int64_t> lengths;
  for (std::int64_t i = 0; i < 60; ++i) lengths.push_back(1 + i * 37 % 60);
  return lengths;
}

std::vector<std::shared_ptr<const PackedBatch>> UnitsOf(const Plan& plan, std::uint64_t epoch) {
  std::vector<std::shared_ptr<const PackedBatch>> batches;
  const auto scratch = plan.NewScratch();
  for (std::uint64_t unit = 0; unit < plan.planned_order().order->units(); ++unit) {
    batches.push_back(*plan.Batch(epoch, {unit, 1}, *scratch));
  }
  return batches;
}

const std::string kToBound = "output: [run, value]\npad: {run: {to: bound, value: -1}}\n";

TEST_CASE("every batch of a bucket is padded to its bound, whatever its rows have",
          "[plan][bucket][pad]") {
  BoundPlans plans(OneToSixty());
  const auto plan = plans.MustCompile(
      kToBound +
      "shuffle: {}\nbatch: {bucket: {by: run.length, bounds: [10, 31, 80], size: 4}, remainder: "
      "keep}\n");
  std::map<std::uint64_t, int> batches;
  for (const auto& batch : UnitsOf(*plan, 0)) {
    std::int64_t longest = 0;
    for (std::size_t row = 0; row < batch->examples(); ++row) {
      longest = std::max(longest, batch->ValueAt(*batch->Find("value"), row));
    }
    const std::uint64_t bound = longest <= 10 ? 10 : longest <= 31 ? 31 : 80;
    CHECK(plans.ExtentIn(*plan, *batch) == bound);
    ++batches[bound];
  }
  CHECK(batches == std::map<std::uint64_t, int>{{10, 3}, {31, 6}, {80, 8}});
}

TEST_CASE("the bound is that of the value that buckets go by, also if rows are much shorter",
          "[plan][bucket][pad]") {
  BoundPlans plans(OneToSixty());
  // Odd numbers all lie in the last bucket.
  const auto plan = plans.MustCompile(
      kToBound +
      "batch: {bucket: {by: \"max(run.length, 90 * (value % 2))\", bounds: [70, 90], size: 5}}\n");
  std::set<std::uint64_t> extents;
  for (const auto& batch : UnitsOf(*plan, 0)) {
    const bool odd = batch->ValueAt(*batch->Find("value"), 0) % 2 == 1;
    const std::uint64_t extent = plans.ExtentIn(*plan, *batch);
    CHECK(extent == (odd ? 90u : 70u));
    extents.insert(extent);
  }
  CHECK(extents == std::set<std::uint64_t>{70, 90});
}

TEST_CASE("micro-batches of a batch have the bound of the whole batch", "[plan][bucket][pad]") {
  BoundPlans plans(OneToSixty());
  const auto plan =
      plans.MustCompile(kToBound + "batch: {bucket: {by: run.length, bounds: [80], size: 6}}\n");
  const auto batch = UnitsOf(*plan, 0).front();
  for (std::size_t index = 0; index < 4; ++index) {
    CHECK(plans.ExtentIn(*plan, *batch, RowsOfMicroBatch(batch->examples(), index, 4)) == 80);
  }
  // Without rows there is nothing to pad.
  CHECK(plans.ExtentIn(*plan, *batch, RowsOfMicroBatch(batch->examples(), 7, 8)) == 0);
}

TEST_CASE("bounds are rounded up to the multiple", "[plan][bucket][pad]") {
  BoundPlans plans(OneToSixty());
  const auto plan = plans.MustCompile(
      "output: [run]\npad: {run: {to: bound, multiple: 8}}\n"
      "batch: {bucket: {by: run.length, bounds: [10, 60], size: 5}}\n");
  std::set<std::uint64_t> extents;
  for (const auto& batch : UnitsOf(*plan, 0)) extents.insert(plans.ExtentIn(*plan, *batch));
  CHECK(extents == std::set<std::uint64_t>{16, 64});
}

TEST_CASE("a batch of chosen examples has the bound that holds them all", "[plan][bucket][pad]") {
  BoundPlans plans({3, 9, 17, 30, 41});
  const auto plan = plans.MustCompile(
      kToBound +
      "filter: {where: \"value != 17\"}\nbatch: {bucket: {by: run.length, bounds: [10, "
      "20, 35], size: 1, above: drop}}\n");
  const auto scratch = plan->NewScratch();
  const auto batch_of = [&](std::vector<ExampleId> ids) {
    return *plan->BatchOf(ids, 0, *scratch);
  };
  CHECK(plans.ExtentIn(*plan, *batch_of({ExampleId(0), ExampleId(1)})) == 10);
  CHECK(plans.ExtentIn(*plan, *batch_of({ExampleId(3), ExampleId(0)})) == 35);
  for (const ExampleId none : {ExampleId(2), ExampleId(4)}) {
    const Status error = plans.Deliver(*plan, *batch_of({ExampleId(0), none})).status();
    CHECK_THAT(error.message(),
               Catch::Contains("pad: to: bound: no bucket holds all examples of the batch"));
  }
}

TEST_CASE("a row that is longer than the bound of its bucket is an error that says so",
          "[plan][bucket][pad]") {
  BoundPlans plans({20, 30});
  const auto plan =
      plans.MustCompile(kToBound + "batch: {bucket: {by: value / 2, bounds: [15], size: 2}}\n");
  const auto batch = UnitsOf(*plan, 0).front();
  CHECK_THAT(plans.Deliver(*plan, *batch).status().message(),
             Catch::StartsWith("tensor run: pad: row 1 of the batch has 30 elements, more than 15, "
                               "the bound of its bucket, in the batch of epoch 0 from place 0 on"));
}

TEST_CASE("pad to a bound needs buckets whose bounds are extents", "[plan][bucket][pad]") {
  BoundPlans plans({20, 30});
  CHECK(plans.ErrorOf(kToBound + "batch: {size: 2}\n") ==
        "pipeline:5:17: pad.run.to: expected batch.bucket beside 'bound', whose bounds these are; "
        "without buckets, write a number of elements");
  CHECK(plans.ErrorOf(kToBound + "batch: {bucket: {by: value, bounds: [30, 2147483648], size: 2}, "
                                 "remainder: keep}\n") ==
        "pipeline:5:17: pad.run.to: the last bound of batch.bucket is 2147483648; a row has at "
        "most 2147483647 elements");
}

TEST_CASE("batches name the bound of their bucket only where something is padded to it",
          "[plan][bucket][pad]") {
  BoundPlans plans({0, 0, 7});
  const std::string bucket = "batch: {bucket: {by: run.length, bounds: [0, 9], size: 1}}\n";
  CHECK_FALSE(UnitsOf(*plans.MustCompile(bucket), 0)[0]->info().bound.has_value());
  const auto plan = plans.MustCompile(kToBound + bucket);
  const auto batches = UnitsOf(*plan, 0);
  CHECK(batches[0]->info().bound == 0u);
  CHECK(batches[2]->info().bound == 9u);
  CHECK(plans.ExtentIn(*plan, *batches[0]) == 0);
  const auto again = PackedBatch::Parse(batches[2]->bytes(), nullptr);
  CHECK((*again)->info() == batches[2]->info());
}

TEST_CASE("chunks of one bucket have one shape", "[plan][chunk][pad]") {
  BoundPlans plans({100, 40, 75, 3});
  const auto plan = plans.MustCompile(
      kToBound +
      "chunk: {tensor: run, size: 32, step: 32}\nshuffle: {}\nbatch: {bucket: {by: run.length, "
      "bounds: [16, 32], size: 2}, remainder: keep}\n");
  std::map<std::uint64_t, int> extents;
  for (const auto& batch : UnitsOf(*plan, 3)) ++extents[plans.ExtentIn(*plan, *batch)];
  CHECK(extents == std::map<std::uint64_t, int>{{16, 2}, {32, 3}});
}

}  // namespace
}  // namespace millrace::test
