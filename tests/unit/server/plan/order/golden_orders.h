// The recorded orders of shared/golden-orders, and what their tests have in common.
#pragma once

#include <catch2/catch.hpp>

#include <cstdint>
#include <fstream>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "common/base/hash.h"
#include "server/source/keyed_order.h"
#include "server/source/order.h"
#include "tests/support/skip.h"

namespace millrace::test {

using Json = nlohmann::json;

/// One recorded case: its parameters, and what has to come out.
struct GoldenOrder {
  Json params;
  Json expected;
};

/// The recorded cases of a name.
inline std::vector<GoldenOrder> GoldenOrders(const std::string& name) {
  const std::string path = SharedDirOrSkip() + "/golden-orders/golden.jsonl";
  std::ifstream file(path);
  if (!file) SkipTest("no file " + path);
  std::vector<GoldenOrder> cases;
  for (std::string line; std::getline(file, line);) {
    Json one = Json::parse(line);
    if (one["case"] == name) cases.push_back({one["params"], one["expected"]});
  }
  REQUIRE_FALSE(cases.empty());
  return cases;
}

/// A number, or the text of one that a double cannot hold.
inline std::uint64_t Number(const Json& value) {
  return value.is_string() ? std::stoull(value.get<std::string>()) : value.get<std::uint64_t>();
}

inline std::optional<std::uint64_t> NumberIfAny(const Json& params, const char* key) {
  const auto found = params.find(key);
  return found == params.end() || found->is_null() ? std::nullopt : std::optional(Number(*found));
}

/// The values of a case: a list, or a rule and how many.
inline std::vector<std::int64_t> GoldenValues(const Json& params) {
  const Json& values = params["values"];
  if (values.is_array()) return values.get<std::vector<std::int64_t>>();
  const std::int64_t divisor = values == "rule8" ? 8 : 1;
  std::vector<std::int64_t> made;
  for (std::int64_t i = 0; i < params["n"].get<std::int64_t>(); ++i) {
    made.push_back((200 + (i * i * 7 + i * 13) % 1501) / divisor);
  }
  return made;
}

/// The rows of one unit.
inline std::vector<OrderRow> RowsOfUnit(const Order& order, std::uint64_t epoch,
                                        std::uint64_t unit) {
  std::vector<OrderRow> rows;
  order.NewReader()->Rows(epoch, {unit, 1}, rows);
  return rows;
}

/// The places of a row.
inline std::vector<UnitRow> PlacesOf(const Order& order, std::uint64_t epoch, OrderRow row) {
  std::vector<UnitRow> places;
  order.NewReader()->Places(epoch, row, places);
  return places;
}

inline std::vector<std::uint64_t> RowNumbers(const std::vector<OrderRow>& rows) {
  std::vector<std::uint64_t> numbers;
  for (const OrderRow& row : rows) numbers.push_back(row.row);
  return numbers;
}

/// The digest of an epoch as golden-orders/README.md has it. `branches`: with each row's branch.
inline std::string EpochDigest(const Order& order, std::uint64_t epoch, bool branches) {
  std::vector<std::uint64_t> numbers;
  const auto reader = order.NewReader();
  std::vector<OrderRow> rows;
  for (std::uint64_t unit = 0; unit < order.units(); ++unit) {
    rows.clear();
    reader->Rows(epoch, {unit, 1}, rows);
    numbers.push_back(rows.size());
    for (const OrderRow& row : rows) {
      if (branches) numbers.push_back(row.branch);
      numbers.push_back(row.row);
    }
  }
  return fmt::format("{:016x}", Xxh3_64(std::as_bytes(std::span(numbers))));
}

}  // namespace millrace::test
