#include "client/cli/offline/describe_order.h"

#include <catch2/catch.hpp>

#include <memory>
#include <string>
#include <vector>

#include "client/cli/offline/inspect_pipeline.h"
#include "server/catalog/product_kinds.h"
#include "server/plan/plan_library.h"
#include "tests/support/dataset_fixture.h"
#include "tests/support/number_kind.h"

namespace millrace::cli {
namespace {

/// The plan of a pipeline over some numbers.
std::shared_ptr<const Plan> PlanOver(const std::vector<std::int64_t>& numbers,
                                     const std::string& more) {
  const test::TempDir dir;
  test::WriteNumbers(dir / "numbers", numbers);
  PlanLibraryOptions options;
  options.kinds = ProductKinds().With(test::MakeNumberKind());
  options.datasets["n"].dir = dir / "numbers";
  PlanLibrary library(std::move(options), MakeNullLogger());
  PipelineSource text;
  text.yaml = "millrace: 1\ndataset: n\nsource: numbers\n" + more;
  const auto plan = library.Compile(text);
  INFO(plan.status().message());
  REQUIRE(plan.ok());
  return *plan;
}

TEST_CASE("inspect shows padding and fill of buckets, and how to pin them", "[inspect][bucket]") {
  const auto plan = PlanOver({1, 2, 2, 3, 4, 10, 8, 90},
                             "batch: {bucket: {by: value, bounds: [4, 10], budget: 12, above: "
                             "drop}, remainder: keep}\n");
  const std::string text = DescribeBuckets(plan->planned_order());
  INFO(text);
  // Padded to 4 and 10: 5 * 4 + 2 * 10 = 40, of values that are 30 together.
  CHECK_THAT(text, Catch::Contains("buckets        2, 25.0 % of padded data is padding\n"));
  CHECK_THAT(text, Catch::Contains("4            5          3          2    40.0 %    83.3 %\n"));
  CHECK_THAT(text, Catch::Contains("10            2          1          2    10.0 %    83.3 %\n"));
  CHECK_THAT(text, Catch::Contains("  to pin them: batch.bucket.bounds: [4, 10]\n"));
  const auto whole = DescribePlan(*plan, {.examples = 0, .world_size = 1});
  REQUIRE(whole.ok());
  CHECK_THAT(*whole,
             Catch::Contains("  above        1 (by batch.bucket.above: drop)\n  in an epoch  7\n"));
  CHECK_THAT(
      *whole,
      Catch::Contains("steps          4 an epoch at world size 1, 1 batches a step, 0 left out\n"));
}

TEST_CASE("inspect shows how evenly the ranks of a step are loaded", "[inspect][balance]") {
  std::vector<std::int64_t> numbers;
  for (std::int64_t i = 0; i < 64; ++i) numbers.push_back(i < 32 ? 100 : 0);
  const std::string batch = "batch: {size: 8}\n";
  const auto balanced = PlanOver(numbers, batch + "balance: {by: value, group: 8}\n");
  CHECK(DescribeBalance(balanced->planned_order(), *balanced->facts().Steps(4)) ==
        "largest rank   1.000 of the mean rank of a step, on average; 1.000 at worst of 2 steps\n");
  // One by one, the first four batches have everything.
  const auto alone = PlanOver(numbers, batch + "balance: {by: value, group: 1}\n");
  CHECK(DescribeBalance(alone->planned_order(), *alone->facts().Steps(8)) ==
        "largest rank   2.000 of the mean rank of a step, on average; 2.000 at worst of 1 steps\n");
  CHECK(DescribeBalance(alone->planned_order(), *alone->facts().Steps(1)).empty());
  const auto plain = PlanOver(numbers, batch);
  CHECK(DescribeBalance(plain->planned_order(), *plain->facts().Steps(4)).empty());
}

TEST_CASE("inspect counts what the buckets of an epoch cut", "[inspect][bucket]") {
  const auto plan =
      PlanOver({1, 1, 1, 2, 2}, "batch: {bucket: {by: value, bounds: [1, 2], size: 2}}\n");
  const auto text = DescribePlan(*plan, {.examples = 0, .world_size = 1});
  REQUIRE(text.ok());
  CHECK_THAT(*text,
             Catch::Contains("  cut          1 (by batch.remainder: drop)\n  in an epoch  4\n"));
}

}  // namespace
}  // namespace millrace::cli
