// Compares whole orders with recorded ones.
#pragma once

#include "tests/unit/server/plan/order/golden_orders.h"

namespace millrace::test {

/// Checks all recorded epochs of an order whose units are batches, in both directions.
inline void CheckBatchOrder(const Order& order, std::uint64_t n, const Json& expected) {
  REQUIRE(order.units() == Number(expected["units"]));
  for (const auto& [key, wanted] : expected["rows"].items()) {
    const std::uint64_t epoch = std::stoull(key);
    std::vector<std::uint64_t> absent;
    for (std::uint64_t row = 0; row < n; ++row) {
      const std::vector<UnitRow> places = PlacesOf(order, epoch, {row, 0});
      if (places.empty()) absent.push_back(row);
      for (const UnitRow& place : places) {
        CHECK(RowsOfUnit(order, epoch, place.unit).at(place.row) == OrderRow{row, 0});
      }
    }
    CHECK(absent == expected["left_out"][key].get<std::vector<std::uint64_t>>());
    REQUIRE(wanted.size() == order.units());
    for (std::uint64_t unit = 0; unit < order.units(); ++unit) {
      CHECK(RowNumbers(RowsOfUnit(order, epoch, unit)) ==
            wanted[unit].get<std::vector<std::uint64_t>>());
    }
  }
}

}  // namespace millrace::test
