#include "tests/unit/server/plan/order/golden_orders.h"

#include <algorithm>
#include <memory>
#include <utility>

#include <fmt/core.h>

#include "common/epoch/position.h"
#include "server/plan/order/balance_order.h"
#include "server/plan/order/chunks.h"
#include "server/plan/order/mix_order.h"
#include "server/plan/order/place_order.h"
#include "tests/unit/server/plan/order/golden_checks.h"
#include "tests/unit/server/plan/order/list_values.h"

namespace millrace::test {
namespace {

PlaceOrder BlockOrder(const Json& params) {
  return PlaceOrder(Number(params["n"]), NumberIfAny(params, "seed"), Number(params["block"]),
                    Number(params["window"]));
}

/// Checks all recorded epochs of an order whose units are examples, in both directions.
void CheckExampleOrder(const Order& order, const Json& expected) {
  REQUIRE(order.units() == Number(expected["units"]));
  for (const auto& [key, wanted] : expected["order"].items()) {
    const std::uint64_t epoch = std::stoull(key);
    const auto reader = order.NewReader();
    std::vector<OrderRow> rows;
    reader->Rows(epoch, {0, static_cast<std::uint32_t>(order.units())}, rows);
    CHECK(RowNumbers(rows) == wanted.get<std::vector<std::uint64_t>>());
    for (std::uint64_t place = 0; place < rows.size(); ++place) {
      CHECK(PlacesOf(order, epoch, rows[place]) == std::vector<UnitRow>{{place, 0}});
    }
  }
}

TEST_CASE("seeds of purposes are the recorded ones", "[order][golden]") {
  for (const auto& [params, expected] : GoldenOrders("derive")) {
    const OrderSeed seed = DeriveSeed(Number(params["seed"]), params["part"].get<std::string>(),
                                      Number(params["number"]));
    CHECK(seed == Number(expected["seed"]));
  }
  CHECK(DeriveSeed(std::nullopt, "window", 1) == std::nullopt);
}

TEST_CASE("permutations are the recorded ones", "[order][golden]") {
  for (const auto& [params, expected] : GoldenOrders("permutation")) {
    const KeyedOrder order(Number(params["seed"]), Number(params["epoch"]), Number(params["n"]));
    for (std::size_t i = 0; i < expected["first"].size(); ++i) {
      CHECK(order(i) == Number(expected["first"][i]));
    }
    CHECK(order.Inverse(0) == Number(expected["inverse_of_0"]));
  }
}

TEST_CASE("plain orders are the recorded ones", "[order][golden]") {
  for (const auto& [params, expected] : GoldenOrders("plain")) {
    CheckExampleOrder(ExampleOrder(PlaceOrder(Number(params["n"]), NumberIfAny(params, "seed"))),
                      expected);
  }
}

TEST_CASE("block orders are the recorded ones", "[order][golden]") {
  for (const auto& [params, expected] : GoldenOrders("block")) {
    const PlaceOrder order = BlockOrder(params);
    CHECK(order.windows() == Number(expected["windows"]));
    CheckExampleOrder(ExampleOrder(order), expected);
  }
}

TEST_CASE("a large block order is the recorded one", "[order][golden]") {
  for (const auto& [params, expected] : GoldenOrders("block_large")) {
    const PlaceOrder order = BlockOrder(params);
    CHECK(order.windows() == Number(expected["windows"]));
    REQUIRE(expected["digest"].size() == 1);
    const std::string key = expected["digest"].items().begin().key();
    const std::uint64_t epoch = std::stoull(key);
    CHECK(EpochDigest(ExampleOrder(order), epoch, false) == expected["digest"][key]);
    PlaceReader reader(order);
    for (const auto& [place, row] : expected["at"].items()) {
      CHECK(reader.At(epoch, std::stoull(place)) == Number(row));
    }
    for (const auto& [row, place] : expected["place"].items()) {
      CHECK(reader.PlaceOf(epoch, std::stoull(row)) == Number(place));
    }
  }
}

TEST_CASE("balanced batches are the recorded ones", "[order][golden][balance]") {
  for (const auto& [params, expected] : GoldenOrders("balance")) {
    const std::vector<std::int64_t> given = GoldenValues(params);
    const std::vector<std::uint64_t> values(given.begin(), given.end());
    const Json& form = params["order"];
    REQUIRE(form.size() == 1);
    const bool block = form.contains("block");
    const Json& own = form.items().begin().value();
    const OrderSeed seed = NumberIfAny(own, "seed");
    const PlaceOrder places = block ? PlaceOrder(values.size(), seed, Number(own["block"]),
                                                 NumberIfAny(own, "window").value_or(16))
                                    : PlaceOrder(values.size(), seed);
    const BalanceOrder order(places, std::make_shared<ListValues>(values),
                             {.size = static_cast<std::uint32_t>(Number(params["size"])),
                              .group = NumberIfAny(params, "group").value_or(64),
                              .keep = params.value("keep", false)});
    CheckBatchOrder(order, values.size(), expected);
  }
}

std::shared_ptr<const MixOrder> MixOf(const Json& params) {
  const std::uint64_t branch_seed = Number(params["branch_seed"]);
  std::vector<PlaceOrder> branches;
  for (std::size_t i = 0; i < params["n"].size(); ++i) {
    const OrderSeed seed = DeriveSeed(branch_seed, "branch", i);
    const std::uint64_t n = Number(params["n"][i]);
    const Json block = params["blocks"].is_null() ? Json() : params["blocks"][i];
    if (block.is_null()) {
      branches.emplace_back(n, seed);
    } else {
      branches.emplace_back(n, seed, Number(block[0]), Number(block[1]));
    }
  }
  MixOrder::Options options;
  options.weights = params["weights"].get<std::vector<std::uint64_t>>();
  options.seed = Number(params["seed"]);
  options.rows = NumberIfAny(params, "epoch");
  if (const auto of = NumberIfAny(params, "of")) options.all_of = *of;
  options.shortest = params.contains("stop");
  return MixOrder::Make(std::move(branches), options).value();
}

std::vector<std::vector<std::uint64_t>> Pairs(const std::vector<OrderRow>& rows) {
  std::vector<std::vector<std::uint64_t>> pairs;
  for (const OrderRow& row : rows) pairs.push_back({row.branch, row.row});
  return pairs;
}

TEST_CASE("mixes are the recorded ones", "[order][golden][mix]") {
  for (const auto& [params, expected] : GoldenOrders("mix")) {
    CAPTURE(params.dump());
    const auto order = MixOf(params);
    CHECK(order->shares().block() == Number(expected["k"]));
    CHECK(order->rows_of() == expected["given"].get<std::vector<std::uint64_t>>());
    REQUIRE(order->units() == Number(expected["units"]));
    for (const auto& [epoch, wanted] : expected["order"].items()) {
      std::vector<OrderRow> rows;
      order->NewReader()->Rows(std::stoull(epoch), {0, static_cast<std::uint32_t>(order->units())},
                               rows);
      CHECK(Pairs(rows) == wanted.get<std::vector<std::vector<std::uint64_t>>>());
    }
    for (const auto& [epoch, wanted] : expected["where"].items()) {
      for (const auto& [key, units] : wanted.items()) {
        const OrderRow row{std::stoull(key.substr(key.find(',') + 1)),
                           static_cast<std::uint32_t>(std::stoul(key))};
        auto sorted = units.get<std::vector<std::uint64_t>>();
        std::sort(sorted.begin(), sorted.end());
        std::vector<std::uint64_t> got;
        for (const UnitRow& place : PlacesOf(*order, std::stoull(epoch), row)) {
          CHECK(place.row == 0);
          got.push_back(place.unit);
        }
        CHECK(got == sorted);
      }
    }
  }
}

TEST_CASE("a large mix is the recorded one", "[order][golden][mix]") {
  for (const auto& [params, expected] : GoldenOrders("mix_large")) {
    const auto order = MixOf(params);
    CHECK(order->rows_of() == expected["given"].get<std::vector<std::uint64_t>>());
    REQUIRE(order->units() == Number(expected["units"]));
    const std::string epoch = expected["digest"].items().begin().key();
    CHECK(EpochDigest(*order, std::stoull(epoch), true) == expected["digest"][epoch]);
    for (const auto& [place, row] : expected["order"][epoch].items()) {
      CHECK(Pairs(RowsOfUnit(*order, std::stoull(epoch), std::stoull(place)))[0] ==
            row.get<std::vector<std::uint64_t>>());
    }
  }
}

TEST_CASE("chunks are the recorded ones", "[order][golden][chunk]") {
  for (const auto& [params, expected] : GoldenOrders("chunk")) {
    const auto lengths = params["lengths"].get<std::vector<std::uint64_t>>();
    const Chunks chunks(lengths, {Number(params["size"]), Number(params["step"])});
    REQUIRE(chunks.size() == Number(expected["units"]));
    std::vector<std::vector<std::uint64_t>> got;
    for (std::uint64_t chunk = 0; chunk < chunks.size(); ++chunk) {
      const auto [row, number] = chunks.At(chunk);
      CHECK(chunks.FirstOf(row) + number == chunk);
      const auto [begin, end] = chunks.ExtentOf(number, lengths[row]);
      got.push_back({row, begin, end});
    }
    CHECK(got == expected["chunks"].get<std::vector<std::vector<std::uint64_t>>>());
    CHECK(chunks.FirstOf(lengths.size()) == chunks.size());
  }
}

TEST_CASE("steps over units are the recorded ones", "[order][golden][steps]") {
  for (const auto& [params, expected] : GoldenOrders("steps")) {
    CAPTURE(params.dump());
    Position at;
    std::size_t step = 0;
    const std::uint64_t global = NumberIfAny(params, "global_size").value_or(0);
    for (const Json& leg : params["legs"]) {
      const auto world = static_cast<std::uint32_t>(Number(leg[0]));
      const StepArithmetic steps =
          StepArithmetic::Create({.examples = Number(params["units"]),
                                  .size = global > 0 ? 0 : NumberIfAny(params, "size").value_or(1),
                                  .global_size = global,
                                  .keep = params.value("keep", false),
                                  .world_size = world})
              .value();
      at = steps.Start(at).value();
      for (std::uint64_t i = 0; i < Number(leg[1]); ++i, ++step) {
        const Json& wanted = expected["steps"].at(step);
        CHECK(at == Position{Number(wanted[0]), Number(wanted[1])});
        REQUIRE(wanted[2].size() == world);
        for (std::uint32_t rank = 0; rank < world; ++rank) {
          const ExampleRange units = steps.RankExamples(at, rank);
          CHECK(units.count == Number(wanted[2][rank][1]));
          if (units.count > 0) CHECK(units.first == Number(wanted[2][rank][0]));
        }
        at = steps.Next(at);
      }
    }
    CHECK(step == expected["steps"].size());
  }
}

}  // namespace
}  // namespace millrace::test
