// Plans whose batches are cut by buckets and balance, or whose examples are shuffled in blocks.

#include <catch2/catch.hpp>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "common/batch/batch.h"
#include "server/plan/plan.h"
#include "tests/unit/server/plan/number_plans.h"

namespace millrace::test {
namespace {

TEST_CASE("a batch of a bucket has values between two bounds and keeps the budget",
          "[plan][bucket]") {
  NumberPlans numbers(Scattered());
  const auto plan = numbers.MustCompile(
      "shuffle: {}\nbatch: {bucket: {by: value, count: 4, budget: 500}, remainder: keep}\n");
  const std::vector<BucketFacts>& buckets = plan->planned_order().buckets;
  REQUIRE(buckets.size() == 4);
  CHECK(buckets.back().bound == 99);
  std::set<ExampleId> seen;
  for (const auto& batch : ReadEpoch(*plan, 1, 2)) {
    std::set<std::size_t> of;
    for (const ExampleId id : batch->info().example_ids) {
      CHECK(seen.insert(id).second);
      const auto bucket = std::find_if(buckets.begin(), buckets.end(), [&](const auto& facts) {
        return numbers[id] <= static_cast<std::int64_t>(facts.bound);
      });
      of.insert(static_cast<std::size_t>(bucket - buckets.begin()));
      CHECK(bucket->bound * batch->examples() <= 500);
    }
    CHECK(of.size() == 1);
  }
  CHECK(seen.size() == 300);
  std::uint64_t examples = 0;
  std::uint64_t sum = 0;
  for (const BucketFacts& facts : buckets) {
    CHECK(facts.size == 500 / facts.bound);
    CHECK(facts.batches == (facts.examples + facts.size - 1) / facts.size);
    examples += facts.examples;
    sum += facts.sum;
  }
  CHECK(examples == 300);
  CHECK(sum == 3 * 99 * 100 / 2);
}

TEST_CASE("a step over whole batches has one for each rank", "[plan][bucket]") {
  NumberPlans numbers(Scattered());
  const auto plan =
      numbers.MustCompile("batch: {bucket: {by: value, bounds: [49, 99], size: 10}}\n");
  const v1::Spec spec = *plan->facts().Spec(4);
  CHECK(spec.steps().examples() == 30);
  CHECK(spec.steps().size() == 1);
  CHECK(spec.steps().unit_rows() == 10);
  CHECK(spec.examples_per_epoch() == 300);
  CHECK(spec.steps_per_epoch() == 7);
  CHECK(spec.left_out_per_epoch() == 2);
}

TEST_CASE("every place that a plan gives has the example", "[plan][order]") {
  NumberPlans numbers(Scattered());
  for (const char* more :
       {"shuffle: {block: 7, window: 3}\nbatch: {size: 16, remainder: keep}\n",
        "shuffle: {}\nbatch: {bucket: {by: value, count: 5, budget: 400}, remainder: keep}\n",
        "shuffle: {block: 20}\nbatch: {size: 16, remainder: keep}\nbalance: {by: value, group: "
        "4}\n"}) {
    CAPTURE(more);
    const auto plan = numbers.MustCompile(more);
    for (std::uint64_t id = 0; id < 300; ++id) {
      const ExamplePlaces found = plan->PlacesOf(2, ExampleId(id));
      REQUIRE(found.places.size() == 1);
      CHECK(plan->Selects(ExampleId(id)));
      const auto [unit, row] = found.places[0];
      CHECK(plan->ExamplesOf(2, {unit, 1}).at(row) == ExampleId(id));
    }
  }
}

TEST_CASE("values above all buckets are refused, or dropped and counted", "[plan][bucket]") {
  NumberPlans numbers(Scattered());
  CHECK(numbers.ErrorOf("batch: {bucket: {by: value, bounds: [10, 89], size: 3}}\n") ==
        "pipeline:4:22: batch.bucket.by: 30 examples have values above the last bound 89, the "
        "largest 99; raise it, or leave these examples out with batch.bucket.above: drop");
  CHECK(numbers.ErrorOf("batch: {bucket: {by: value, count: 2, budget: 95}}\n") ==
        "pipeline:4:22: batch.bucket.by: 12 examples have values above batch.bucket.budget 95, the "
        "largest 99; raise it, or leave these examples out with batch.bucket.above: drop");
  const auto plan = numbers.MustCompile(
      "batch: {bucket: {by: value, bounds: [10, 89], size: 3, above: drop}, remainder: keep}\n");
  CHECK(plan->counts().selected == 300);
  CHECK(plan->counts().above == 30);
  CHECK(plan->planned_order().order->rows() == 270);
  for (std::uint64_t id = 0; id < 300; ++id) {
    const bool fits = numbers[ExampleId(id)] <= 89;
    CHECK(plan->Selects(ExampleId(id)) == fits);
    CHECK(plan->PlacesOf(0, ExampleId(id)).why ==
          (fits ? ExamplePlaces::Absence::kNone : ExamplePlaces::Absence::kAbove));
  }
}

TEST_CASE("an example that an epoch drops is said to be cut", "[plan][bucket]") {
  NumberPlans numbers({1, 1, 1, 2, 2});
  const auto plan =
      numbers.MustCompile("shuffle: {}\nbatch: {bucket: {by: value, bounds: [1, 2], size: 2}}\n");
  std::map<std::uint64_t, int> cut;
  for (std::uint64_t epoch = 0; epoch < 20; ++epoch) {
    int count = 0;
    for (std::uint64_t id = 0; id < 5; ++id) {
      if (plan->PlacesOf(epoch, ExampleId(id)).why != ExamplePlaces::Absence::kCut) continue;
      ++cut[id];
      ++count;
    }
    CHECK(count == 1);
  }
  CHECK(cut.size() == 3);  // each of the bucket of three, in some epoch
}

TEST_CASE("buckets that cannot be served are refused with the numbers", "[plan][bucket]") {
  NumberPlans numbers(Scattered());
  CHECK(numbers.ErrorOf("batch: {bucket: {by: value, bounds: [3, 200], budget: 150}}\n") ==
        "pipeline:4:37: batch.bucket.bounds: the bound 200 is above batch.bucket.budget, 150: not "
        "even one example would fit a batch");
  CHECK(numbers.ErrorOf("batch: {bucket: {by: value, bounds: [1, 99], size: 10}}\n")
            .find("batch.bucket: the bucket up to 1 has 6 examples, fewer than a batch of 10: with "
                  "remainder: drop no epoch would have them") != std::string::npos);
  CHECK(numbers.ErrorOf("batch: {bucket: {by: value - 5, count: 2, size: 10}}\n") ==
        "pipeline:4:22: batch.bucket.by: expected values from 0 to 1099511627776, got -5 for "
        "example 0");
  CHECK(numbers.ErrorOf("batch: {bucket: {by: valeu, count: 2, size: 10}}\n")
            .find("the source has the columns value, odd") != std::string::npos);
  CHECK(numbers
            .ErrorOf("filter: {where: \"value > 100\"}\nbatch: {bucket: {by: value, count: 2, "
                     "size: 10}}\n")
            .find("batch: an epoch has no batch: of 0 selected examples") != std::string::npos);
  CHECK(
      numbers.ErrorOf("shuffle: {block: 5}\nbatch: {bucket: {by: value, count: 2, size: 10}}\n") ==
      "pipeline:4:18: shuffle.block: expected no blocks beside batch.bucket");
}

TEST_CASE("a budget without a largest size is refused if a batch would be too large",
          "[plan][bucket]") {
  std::vector<std::int64_t> zeros((1 << 20) + 1, 0);
  NumberPlans numbers(zeros);
  CHECK(
      numbers.ErrorOf("batch: {bucket: {by: value, count: 1, budget: 2000000}, remainder: keep}\n")
          .find("a batch of the bucket up to 0 would have 2000000 examples; set "
                "batch.bucket.max_size, at most 1048576") != std::string::npos);
  const auto plan = numbers.MustCompile(
      "batch: {bucket: {by: value, count: 1, budget: 2000000, max_size: 1048576}, remainder: "
      "keep}\n");
  CHECK(plan->planned_order().order->units() == 2);
}

TEST_CASE("a float that buckets go by is cut to an integer, and no number is refused",
          "[plan][bucket]") {
  NumberPlans numbers({10, 11, 12, 13});
  const auto plan =
      numbers.MustCompile("batch: {bucket: {by: value / 2, bounds: [5, 6], size: 2}}\n");
  CHECK(plan->planned_order().buckets[0].examples == 2);
  CHECK(numbers.ErrorOf("batch: {bucket: {by: sqrt(9.0 - value), bounds: [5], size: 2}}\n")
            .find("got -1 for example 0") != std::string::npos);
}

TEST_CASE("balanced batches have the same sizes and about equal sums", "[plan][balance]") {
  NumberPlans numbers(Scattered());
  const std::string more = "shuffle: {}\nbatch: {size: 10}\n";
  const auto balanced = numbers.MustCompile(more + "balance: {by: value, group: 30}\n");
  const auto plain = numbers.MustCompile(more);
  const auto spread = [&](const Plan& plan) {
    std::int64_t least = 1'000'000;
    std::int64_t most = 0;
    for (const auto& batch : ReadEpoch(plan, 3, 1)) {
      CHECK(batch->examples() == 10);
      std::int64_t sum = 0;
      for (const ExampleId id : batch->info().example_ids) sum += numbers[id];
      least = std::min(least, sum);
      most = std::max(most, sum);
    }
    return most - least;
  };
  CHECK(spread(*balanced) * 20 < spread(*plain));
}

TEST_CASE("balance needs batches of one size", "[plan][balance]") {
  NumberPlans numbers(Scattered());
  CHECK(numbers.ErrorOf("batch: {global_size: 16}\nbalance: {by: value}\n")
            .find("balance: expected batch.size beside it, not global_size or bucket") !=
        std::string::npos);
  CHECK(numbers.ErrorOf("batch: {size: 1048576}\nbalance: {by: value, group: 17}\n")
            .find("balance.group: 17 batches of 1048576 examples are more than 16777216") !=
        std::string::npos);
  CHECK(numbers.ErrorOf("batch: {size: 400}\nbalance: {by: value}\n")
            .find("batch: an epoch has no batch: of 300 selected examples") != std::string::npos);
  CHECK(numbers.ErrorOf("batch: {size: 4}\nbalance: {by: value - 1}\n")
            .find("balance.by: expected values from 0 to") != std::string::npos);
}

TEST_CASE("orders of all forms select the same examples after split and filter", "[plan][order]") {
  NumberPlans numbers(Scattered());
  const std::string select =
      "split: {method: hash, proportions: [1, 1], take: 1}\nfilter: {where: \"value % 3 != 0\"}\n"
      "shuffle: {seed: 4}\n";
  std::set<ExampleId> wanted;
  for (const char* more : {"batch: {size: 8, remainder: keep}\n",
                           "shuffle.block: 9\nbatch: {size: 8, remainder: keep}\n",
                           "batch: {bucket: {by: value, count: 3, budget: 300}, remainder: keep}\n",
                           "batch: {size: 8, remainder: keep}\nbalance: {by: value}\n"}) {
    std::set<ExampleId> seen;
    for (const auto& batch : ReadEpoch(*numbers.MustCompile(select + more), 5, 3)) {
      for (const ExampleId id : batch->info().example_ids) CHECK(seen.insert(id).second);
    }
    CHECK(seen.size() > 50);
    if (wanted.empty()) wanted = seen;
    CHECK(seen == wanted);
  }
}

TEST_CASE("an example that is excluded is dropped in its place", "[plan][exclude]") {
  NumberPlans numbers(Scattered());
  const std::string more = "shuffle: {}\nbatch: {size: 8, remainder: keep}\n";
  const auto whole = numbers.MustCompile(more);
  const auto some = numbers.MustCompile(more + "exclude: {examples: [299, 7, 8, 7]}\n");
  CHECK(some->facts().order_fingerprint() == whole->facts().order_fingerprint());
  CHECK_FALSE(some->facts().fingerprint() == whole->facts().fingerprint());
  const StepArithmetic steps = *whole->facts().Steps(1);
  const auto some_scratch = some->NewScratch();
  const auto whole_scratch = whole->NewScratch();
  std::set<std::uint64_t> dropped;
  for (Position at{}; at.epoch == 0; at = steps.Next(at)) {
    const ExampleRange units = steps.RankExamples(at, 0);
    const auto all = *whole->Batch(0, units, *whole_scratch);
    const auto batch = *some->Batch(0, units, *some_scratch);
    std::vector<ExampleId> left = all->info().example_ids;
    for (const DroppedExample& one : batch->info().dropped) {
      CHECK(one.reason == DropReason::kExcluded);
      dropped.insert(one.id.value());
      std::erase(left, one.id);
    }
    CHECK(batch->info().example_ids == left);
    CHECK(batch->info().planned_examples == units.count);
    CHECK(some->PlacesOf(0, all->info().example_ids[0]).places ==
          whole->PlacesOf(0, all->info().example_ids[0]).places);
  }
  CHECK(dropped == std::set<std::uint64_t>{7, 8, 299});
  CHECK(numbers.ErrorOf(more + "exclude: {examples: [300, 3]}\n") ==
        "pipeline:6:21: exclude.examples: there is no example 300: the source has 300, from 0 on");
}

}  // namespace
}  // namespace millrace::test
