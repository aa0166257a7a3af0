#include "tests/unit/server/plan/order/golden_orders.h"

#include <limits>
#include <memory>
#include <utility>

#include "common/epoch/position.h"
#include "server/plan/order/bounds.h"
#include "server/plan/order/bucket_order.h"
#include "server/plan/order/classes.h"
#include "tests/unit/server/plan/order/golden_checks.h"

namespace millrace::test {
namespace {

/// The order of a case whose parameters are those of `bucket`.
BucketOrder BucketOrderOf(const Json& params, std::vector<std::uint64_t>& bounds) {
  const std::vector<std::int64_t> values = GoldenValues(params);
  const auto budget = NumberIfAny(params, "budget");
  if (params.contains("bounds")) {
    bounds = params["bounds"].get<std::vector<std::uint64_t>>();
  } else {
    ValueHistogram histogram(budget.value_or(ValueHistogram::kMaxValue));
    histogram.Add(values);
    bounds = BestBounds(histogram, Number(params["count"]));
  }
  ClassCounter counter(bounds);
  counter.Add(values);
  Classes::Builder builder(bounds, counter.counts(), values.size());
  builder.Add(values);
  BucketOrder::Options options;
  for (const std::uint64_t bound : bounds) {
    const std::uint64_t most =
        NumberIfAny(params, "max_size").value_or(std::numeric_limits<std::uint32_t>::max());
    const std::uint64_t fit = budget.value_or(0) / std::max<std::uint64_t>(1, bound);
    options.sizes.push_back(
        static_cast<std::uint32_t>(NumberIfAny(params, "size").value_or(std::min(most, fit))));
  }
  options.keep = params.value("keep", false);
  options.together = NumberIfAny(params, "together").value_or(1);
  options.seed = NumberIfAny(params, "seed");
  return BucketOrder(std::make_shared<const Classes>(std::move(builder).Build().value()),
                     std::move(options));
}

TEST_CASE("bucket orders are the recorded ones", "[order][golden][bucket]") {
  for (const auto& [params, expected] : GoldenOrders("bucket")) {
    CAPTURE(params.dump());
    std::vector<std::uint64_t> bounds;
    const BucketOrder order = BucketOrderOf(params, bounds);
    CHECK(bounds == expected["bounds"].get<std::vector<std::uint64_t>>());
    for (std::size_t c = 0; c < bounds.size(); ++c) {
      CHECK(order.classes().count(c) == Number(expected["counts"][c]));
      CHECK(order.size_of(c) == Number(expected["sizes"][c]));
      CHECK(order.batches_of(c) == Number(expected["batches"][c]));
    }
    CheckBatchOrder(order, params["values"].size(), expected);
  }
}

TEST_CASE("large bucket orders are the recorded ones", "[order][golden][bucket]") {
  for (const auto& [params, expected] : GoldenOrders("bucket_large")) {
    std::vector<std::uint64_t> bounds;
    const BucketOrder order = BucketOrderOf(params, bounds);
    CHECK(bounds == expected["bounds"].get<std::vector<std::uint64_t>>());
    REQUIRE(order.units() == Number(expected["units"]));
    const std::string key = expected["digest"].items().begin().key();
    const std::uint64_t epoch = std::stoull(key);
    CHECK(EpochDigest(order, epoch, false) == expected["digest"][key]);
    for (const auto& [unit, rows] : expected["rows"].items()) {
      CHECK(RowNumbers(RowsOfUnit(order, epoch, std::stoull(unit))) ==
            rows.get<std::vector<std::uint64_t>>());
    }
    REQUIRE_FALSE(expected["where"].empty());
    for (const auto& [row, places] : expected["where"].items()) {
      std::vector<UnitRow> wanted;
      for (const Json& place : places) {
        wanted.push_back({Number(place[0]), static_cast<std::uint32_t>(Number(place[1]))});
      }
      CHECK(PlacesOf(order, epoch, {std::stoull(row), 0}) == wanted);
    }
  }
}

TEST_CASE("a run over buckets that changes its world size is the recorded one",
          "[order][golden][bucket]") {
  for (const auto& [params, expected] : GoldenOrders("run")) {
    std::vector<std::uint64_t> bounds;
    const BucketOrder order = BucketOrderOf(params, bounds);
    Position at;
    std::size_t batch = 0;
    for (const Json& leg : params["legs"]) {
      const auto world = static_cast<std::uint32_t>(Number(leg[0]));
      const StepArithmetic steps = StepArithmetic::Create({.examples = order.units(),
                                                           .size = 1,
                                                           .keep = params.value("keep", false),
                                                           .world_size = world,
                                                           .unit_rows = order.max_rows()})
                                       .value();
      at = steps.Start(at).value();
      for (std::uint64_t i = 0; i < Number(leg[1]); ++i, ++batch) {
        const Json& wanted = expected["batches"].at(batch);
        CHECK(at == Position{Number(wanted[0]), Number(wanted[1])});
        for (std::uint32_t rank = 0; rank < world; ++rank) {
          std::vector<OrderRow> rows;
          order.NewReader()->Rows(at.epoch, steps.RankExamples(at, rank), rows);
          CHECK(RowNumbers(rows) == wanted[2][rank].get<std::vector<std::uint64_t>>());
        }
        at = steps.Next(at);
      }
    }
    CHECK(batch == expected["batches"].size());
  }
}

}  // namespace
}  // namespace millrace::test
