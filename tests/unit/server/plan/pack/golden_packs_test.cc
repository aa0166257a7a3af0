#include <catch2/catch.hpp>

#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "common/base/hash.h"
#include "server/source/keyed_order.h"
#include "tests/support/skip.h"
#include "tests/unit/server/plan/pack/plain_packs.h"

namespace millrace::test {
namespace {

using Json = nlohmann::json;

/// The recorded cases of a name.
std::vector<Json> GoldenPacks(const std::string& name) {
  const std::string path = SharedDirOrSkip() + "/golden-packs/golden.jsonl";
  std::ifstream file(path);
  if (!file) SkipTest("no file " + path);
  std::vector<Json> cases;
  for (std::string line; std::getline(file, line);) {
    Json one = Json::parse(line);
    if (one["case"] == name) cases.push_back(std::move(one));
  }
  REQUIRE_FALSE(cases.empty());
  return cases;
}

PackOptions GoldenOptions(const Json& params) {
  PackOptions options;
  options.size = params["size"].get<std::uint64_t>();
  options.method = params["method"] == "fit" ? PackMethod::kFit : PackMethod::kConcat;
  const std::string above = params.value("above", "split");
  options.above = above == "split" ? PackAbove::kSplit
                  : above == "cut" ? PackAbove::kCut
                                   : PackAbove::kDrop;
  options.window = params.value("window", std::uint64_t{4096});
  return options;
}

/// A recorded case, packed. Recorded documents are numbered among the selected ones.
class GoldenPack {
 public:
  /// `lengths`: of each selected document, null if it cannot be built.
  GoldenPack(const Json& params, const std::vector<Json>& lengths)
      : order_(Order(params, lengths.size())),
        built_(lengths.size()),
        packed_(InPackOrder(params, lengths), GoldenOptions(params)) {
    for (std::size_t i = 0; i < lengths.size(); ++i) built_[i] = !lengths[i].is_null();
  }

  const PackLayout& layout() const { return *packed_.layout; }
  Json Row(std::uint64_t row) const {
    Json pieces = Json::array();
    for (const Piece& piece : packed_.Row(row)) {
      pieces.push_back({order_(piece.document), piece.begin, piece.length});
    }
    return pieces;
  }
  Json Where(std::uint64_t document) const {
    if (!built_[document]) return "not built";
    const DocumentRows rows = packed_.rows->RowsOf(order_.Inverse(document)).value();
    if (rows.reason == DocumentRows::Reason::kEmpty) return "empty";
    if (rows.reason == DocumentRows::Reason::kAbove) return "above";
    return Listed(rows.runs);
  }
  Json Columns(std::uint64_t row) const {
    RowColumns columns;
    REQUIRE(packed_.rows->ReadColumns(row, {&columns, 1}).ok());
    return {{"length", columns.length}, {"pieces", columns.pieces}, {"squares", columns.squares}};
  }
  std::string Digest() const {
    std::vector<std::uint64_t> numbers;
    for (std::uint64_t row = 0; row < layout().rows(); ++row) {
      const PieceRow pieces = packed_.Row(row);
      numbers.push_back(pieces.size());
      for (const Piece& piece : pieces) {
        numbers.insert(numbers.end(), {order_(piece.document), piece.begin, piece.length});
      }
    }
    return fmt::format("{:016x}", Xxh3_64(std::as_bytes(std::span(numbers))));
  }

 private:
  static KeyedOrder Order(const Json& params, std::uint64_t n) {
    OrderSeed seed;
    if (const Json& given = params["seed"]; !given.is_null()) {
      seed = std::stoull(given.get<std::string>());
    }
    return KeyedOrder(DeriveSeed(seed, "pack", 0), 0, n);
  }
  Lengths InPackOrder(const Json& params, const std::vector<Json>& lengths) const {
    const std::uint64_t around =
        params.value("before", Json::array()).size() + params.value("after", Json::array()).size();
    Lengths ordered;
    for (std::uint64_t i = 0; i < lengths.size(); ++i) {
      const Json& length = lengths[order_(i)];
      const std::uint64_t own = length.is_null() ? 0 : length.get<std::uint64_t>();
      ordered.push_back(own == 0 ? 0 : own + around);
    }
    return ordered;
  }

  const KeyedOrder order_;
  std::vector<bool> built_;
  const PackedList packed_;
};

TEST_CASE("recorded packs have the recorded rows", "[pack][golden]") {
  for (const Json& recorded : GoldenPacks("pack")) {
    const Json& params = recorded["params"];
    const Json& expected = recorded["expected"];
    INFO(params.dump());
    const GoldenPack pack(params, params["lengths"].get<std::vector<Json>>());
    REQUIRE(pack.layout().rows() == expected["units"].get<std::uint64_t>());
    CHECK(pack.layout().totals().left_out == expected["left_out"].get<std::uint64_t>());
    for (std::uint64_t row = 0; row < pack.layout().rows(); ++row) {
      CHECK(pack.Row(row) == expected["rows"][row]);
    }
    REQUIRE(expected["where"].size() == pack.layout().documents());
    for (const auto& [document, rows] : expected["where"].items()) {
      CHECK(pack.Where(std::stoull(document)) == rows);
    }
  }
}

TEST_CASE("large recorded packs have the recorded digests, rows and columns", "[pack][golden]") {
  for (const Json& recorded : GoldenPacks("pack_large")) {
    const Json& params = recorded["params"];
    const Json& expected = recorded["expected"];
    INFO(params.dump());
    const auto rule = params["rule"].get<std::vector<std::uint64_t>>();
    std::vector<Json> lengths;
    for (std::uint64_t i = 0; i < rule[0]; ++i) {
      lengths.emplace_back((i * i * rule[1] + i * rule[2]) % 1501 * (i % 97 == 5 ? 20 : 1));
    }
    const GoldenPack pack(params, lengths);
    REQUIRE(pack.layout().rows() == expected["units"].get<std::uint64_t>());
    CHECK(pack.layout().totals().left_out == expected["left_out"].get<std::uint64_t>());
    CHECK(pack.Digest() == expected["digest"].get<std::string>());
    for (const auto& [row, pieces] : expected["rows"].items()) {
      CHECK(pack.Row(std::stoull(row)) == pieces);
    }
    for (const auto& [document, rows] : expected["where"].items()) {
      CHECK(pack.Where(std::stoull(document)) == rows);
    }
    for (const auto& [row, columns] : expected["columns"].items()) {
      CHECK(pack.Columns(std::stoull(row)) == columns);
    }
  }
}

}  // namespace
}  // namespace millrace::test
