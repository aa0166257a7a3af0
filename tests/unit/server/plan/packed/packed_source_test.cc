#include "server/plan/packed/packed_source.h"

#include <catch2/catch.hpp>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/batch/arena.h"
#include "common/batch/batch.h"
#include "server/plan/packed/kept_layout.h"
#include "tests/support/dataset_fixture.h"
#include "tests/unit/server/plan/packed/golden_packs.h"
#include "tests/unit/server/plan/packed/list_source.h"

namespace millrace::test {
namespace {

using Catch::StartsWith;
using nlohmann::json;

PackPart PartOf(const json& params) {
  PackPart part;
  part.tensor = "tokens";
  part.size = params["size"].get<std::uint64_t>();
  part.fit = params["method"] == "fit";
  const std::string above = params.value("above", "split");
  part.above = above == "cut"    ? PackPart::Above::kCut
               : above == "drop" ? PackPart::Above::kDrop
                                 : PackPart::Above::kSplit;
  part.window = params.value("window", std::uint64_t{4096});
  part.before = params.value("before", std::vector<std::int64_t>());
  part.after = params.value("after", std::vector<std::int64_t>());
  if (!params["seed"].is_null()) part.seed = std::stoull(params["seed"].get<std::string>());
  return part;
}

ListSource::Options OptionsOf(const json& params) {
  ListSource::Options options;
  for (const json& length : params["lengths"]) {
    options.lengths.push_back(length.is_null() ? std::nullopt
                                               : std::optional(length.get<std::uint64_t>()));
  }
  for (const json& lost : params.value("lost", json::array())) {
    options.lost.insert(lost.get<std::uint64_t>());
  }
  return options;
}

Result<std::shared_ptr<const Source>> Pack(std::shared_ptr<const Source> source,
                                           const PackPart& part,
                                           std::vector<std::uint64_t> excluded = {}) {
  PlanParts parts;
  parts.Edit<PackPart>() = part;
  parts.Edit<ExcludePart>().examples = std::move(excluded);
  const PackingOptions options = {.needs = {true, true, true}, .operations = {}, .threads = 2};
  return PackDocuments(std::move(source), parts, options, *MakeNullLogger());
}

Result<std::shared_ptr<const PackedBatch>> Build(const Source& source,
                                                 const std::vector<std::uint64_t>& rows) {
  static BufferPool pool;
  auto writer = BatchWriter::Create(source.tensors(), source.expand(), pool);
  REQUIRE(writer.ok());
  writer->Begin({}, 0, 0, static_cast<std::uint32_t>(rows.size()));
  std::vector<ExampleId> ids;
  for (const std::uint64_t row : rows) ids.emplace_back(row);
  MILLRACE_RETURN_IF_ERROR(source.NewReader()->Append(ids, *writer));
  return writer->Seal();
}

/// The rows of a ragged tensor.
json Rows(const PackedBatch& batch, const char* path, const char* splits) {
  json rows = json::array();
  for (std::size_t row = 0; row < batch.examples(); ++row) {
    json values = json::array();
    const std::int64_t end = batch.ValueAt(*batch.Find(splits), row + 1);
    for (std::int64_t i = batch.ValueAt(*batch.Find(splits), row); i < end; ++i) {
      values.push_back(batch.ValueAt(*batch.Find(path), static_cast<std::size_t>(i)));
    }
    rows.push_back(std::move(values));
  }
  return rows;
}

/// `pack.next` of the recorded labels: that of the last element of each piece.
json NextOf(const json& expected) {
  json next = json::array();
  for (std::size_t row = 0; row < expected["lengths"].size(); ++row) {
    json of_row = json::array();
    std::size_t at = 0;
    for (const json& length : expected["lengths"][row]) {
      at += length.get<std::size_t>();
      of_row.push_back(expected["label"][row][at - 1]);
    }
    next.push_back(std::move(of_row));
  }
  return next;
}

/// Without the padding of `pad.pack`.
json Unpadded(const json& values, const json& lengths) {
  json rows = json::array();
  for (std::size_t row = 0; row < values.size(); ++row) {
    std::size_t length = 0;
    for (const json& piece : lengths[row]) length += piece.get<std::size_t>();
    rows.push_back(json(std::vector<json>(
        values[row].begin(), values[row].begin() + static_cast<std::ptrdiff_t>(length))));
  }
  return rows;
}

TEST_CASE("batches of rows have the tensors that are recorded", "[packed][golden]") {
  for (const auto& [params, expected] : GoldenPackCases("batch")) {
    const bool with = expected.contains("with");
    for (const bool by_parts : {false, true}) {
      INFO(params.dump() << " by parts: " << by_parts);
      ListSource::Options options = OptionsOf(params);
      options.by_parts = by_parts;
      PackPart part = PartOf(params);
      // Parts are read only if nothing goes with the tensor.
      if (with && !by_parts) part.with = {"mask"};
      const auto list = std::make_shared<const ListSource>(options);
      const auto source = Pack(list, part);
      INFO(source.status().message());
      REQUIRE(source.ok());
      const auto batch = Build(**source, params["rows"].get<std::vector<std::uint64_t>>());
      INFO(batch.status().message());
      REQUIRE(batch.ok());
      json ids = json::array();
      for (const ExampleId id : (*batch)->info().example_ids) ids.push_back(id.value());
      CHECK(ids == expected["rows"]);
      const json& lengths = expected["lengths"];
      const auto rows = [&](const char* path, const char* splits) {
        return Rows(**batch, path, splits);
      };
      CHECK(rows("tokens", "tokens_splits") == Unpadded(expected["tensor"], lengths));
      if (with && !by_parts) {
        CHECK(rows("mask", "mask_splits") == Unpadded(expected["with"], lengths));
      }
      CHECK(rows("pack.lengths", "pack.lengths_splits") == lengths);
      CHECK(rows("pack.documents", "pack.lengths_splits") == expected["documents"]);
      CHECK(rows("pack.begins", "pack.lengths_splits") == expected["begins"]);
      CHECK(rows("pack.next", "pack.lengths_splits") == NextOf(expected));
      json dropped = json::array();
      for (const DroppedExample& drop : (*batch)->info().dropped) {
        CHECK(drop.reason == DropReason::kTooLarge);
        dropped.push_back(drop.id.value());
      }
      json recorded = json::array();
      for (const json& drop : expected["dropped"]) recorded.push_back(drop[0]);
      CHECK(dropped == recorded);
      if (by_parts) CHECK(list->read() == 0);
    }
  }
}

PackPart Fit(std::uint64_t size) {
  PackPart part;
  part.tensor = "tokens";
  part.size = size;
  part.fit = true;
  return part;
}

std::shared_ptr<const ListSource> ListOf(ListSource::Options options) {
  return std::make_shared<const ListSource>(std::move(options));
}

TEST_CASE("documents that are lost for several reasons drop a row for that of its first",
          "[packed]") {
  const auto list = ListOf({.lengths = {2, 2, 2, 2}, .lost = {0, 3}});
  const auto source = Pack(list, Fit(4), {1, 2});
  REQUIRE(source.ok());
  const auto batch = Build(**source, {1, 0});
  REQUIRE(batch.ok());
  CHECK((*batch)->info().dropped ==
        std::vector<DroppedExample>{{ExampleId(1), DropReason::kExcluded},
                                    {ExampleId(0), DropReason::kTooLarge}});
  CHECK((*batch)->info().lost_pieces ==
        std::vector<LostPieces>{{DropReason::kTooLarge, 2}, {DropReason::kExcluded, 2}});
}

TEST_CASE("pieces are lost with their documents, in each row that has one", "[packed]") {
  for (const bool by_parts : {false, true}) {
    ListSource::Options options{.lengths = {9, 1, 2, 1}, .lost = {0}};
    options.by_parts = by_parts;
    const auto source = Pack(ListOf(options), Fit(4), {3});
    REQUIRE(source.ok());
    std::map<DropReason, std::uint64_t> lost;
    for (std::uint64_t row = 0; row < (*source)->examples(); ++row) {
      std::map<DropReason, std::uint64_t> expected;
      const auto pieces = (*source)->packs()->PiecesOf(ExampleId(row));
      REQUIRE(pieces.ok());
      for (const RowPiece& piece : *pieces) {
        if (piece.document == ExampleId(0)) ++expected[DropReason::kTooLarge];
        if (piece.document == ExampleId(3)) ++expected[DropReason::kExcluded];
      }
      const auto batch = Build(**source, {row});
      REQUIRE(batch.ok());
      std::map<DropReason, std::uint64_t> got;
      for (const LostPieces& one : (*batch)->info().lost_pieces) {
        got[one.reason] += one.pieces;
        lost[one.reason] += one.pieces;
      }
      INFO("row " << row << ", by parts: " << by_parts);
      CHECK(got == expected);
    }
    // A document of 9 elements has three pieces in rows of 4.
    CHECK(lost == std::map<DropReason, std::uint64_t>{{DropReason::kTooLarge, 3},
                                                      {DropReason::kExcluded, 1}});
  }
}

TEST_CASE("batches of whole documents have no lost pieces", "[packed]") {
  const auto source = Pack(ListOf({.lengths = {9, 1, 2, 1}}), Fit(4));
  REQUIRE(source.ok());
  const auto batch = Build(**source, {0, 1, 2});
  REQUIRE(batch.ok());
  CHECK((*batch)->info().lost_pieces.empty());
  CHECK((*source)->facts().token_tensor == "tokens");
}

TEST_CASE("selected documents are packed as they lie, also if few are selected", "[packed]") {
  ListSource::Options options;
  for (std::uint64_t i = 0; i < 9000; ++i) {
    options.lengths.push_back(i % (i < 4000 ? 2 : 700) == 0 ? 5 : 3);
  }
  PlanParts parts;
  parts.Edit<PackPart>() = Fit(5);
  parts.Edit<FilterPart>().where = "long";
  const auto source = PackDocuments(ListOf(options), parts, {}, *MakeNullLogger());
  REQUIRE(source.ok());
  std::uint64_t row = 0;
  for (std::uint64_t i = 0; i < 9000; ++i) {
    if (options.lengths[i] != 5) continue;
    const auto pieces = (*source)->packs()->PiecesOf(ExampleId(row++));
    REQUIRE(pieces.ok());
    REQUIRE(*pieces == std::vector<RowPiece>{{ExampleId(i), 0, 5}});
  }
  CHECK((*source)->examples() == row);
}

TEST_CASE("a document is read once for all rows of a batch that have a piece of it", "[packed]") {
  const auto list = ListOf({.lengths = {20, 3, 5, 0, 17}});
  const auto source = Pack(list, Fit(4));
  REQUIRE(source.ok());
  std::vector<std::uint64_t> all;
  for (std::uint64_t row = 0; row < (*source)->examples(); ++row) all.push_back(row);
  REQUIRE(Build(**source, all).ok());
  CHECK(list->read() == 4);
}

TEST_CASE("a document whose length contradicts its column ends the job", "[packed]") {
  const auto source = Pack(ListOf({.lengths = {3, 3}, .longer = {1}}), Fit(4));
  REQUIRE(source.ok());
  CHECK(Build(**source, {0}).ok());
  const auto batch = Build(**source, {1});
  CHECK(batch.status().code() == StatusCode::kDataLoss);
  CHECK(batch.status().message() ==
        "document 1: tokens has 4 elements, but the column tokens.length says 3, by which it is "
        "packed");
}

TEST_CASE("a tensor that has another length than the one it goes with ends the job", "[packed]") {
  PackPart part = Fit(4);
  part.with = {"mask"};
  const auto source = Pack(ListOf({.lengths = {3, 3}, .longer_mask = {1}}), part);
  REQUIRE(source.ok());
  const auto batch = Build(**source, {1});
  CHECK(batch.status().code() == StatusCode::kDataLoss);
  CHECK(batch.status().message() ==
        "document 1: mask has 4 elements, and tokens has 3; expected as many, because pack.with "
        "names it");
}

TEST_CASE("examples that change in every epoch are not packed", "[packed]") {
  const auto source = Pack(ListOf({.lengths = {3}, .varies = true}), Fit(4));
  CHECK_THAT(source.status().message(),
             StartsWith("pack: the source 'list' makes its examples anew in every epoch"));
}

TEST_CASE("a source with a tensor that is called pack is not packed", "[packed]") {
  for (const char* name : {"pack", "pack/x", "pack.lengths"}) {
    const auto source = Pack(ListOf({.lengths = {3}, .extra = name}), Fit(4));
    CHECK_THAT(source.status().message(), StartsWith("pack: the source 'list' has a tensor 'pack"));
  }
  CHECK(Pack(ListOf({.lengths = {3}, .extra = "packs"}), Fit(4)).ok());
}

TEST_CASE("documents that cannot be cut into rows are told with their numbers", "[packed]") {
  PackPart part = Fit(2);
  part.above = PackPart::Above::kDrop;
  const auto none = Pack(ListOf({.lengths = {3, 0, 4, std::nullopt, 0}}), part);
  CHECK(none.status().message() ==
        "pack.tensor: 0 rows: 5 documents, 2 above 2, 2 empty, 1 not built");
  const auto wrong = Pack(ListOf({.lengths = {3, (std::uint64_t{1} << 40) + 1}}), part);
  CHECK_THAT(wrong.status().message(),
             StartsWith("pack.tensor: expected lengths from 0 to 1099511627776, got 1099511627777 "
                        "for example 1"));
}

TEST_CASE("the summary of packed documents counts them all", "[packed]") {
  PackPart part = Fit(4);
  part.above = PackPart::Above::kCut;
  const auto source = Pack(ListOf({.lengths = {3, 0, 7, std::nullopt, 1}}), part);
  REQUIRE(source.ok());
  const PackSummary& summary = (*source)->packs()->summary();
  CHECK(summary.documents == 5);
  CHECK(summary.empty == 1);
  CHECK(summary.not_built == 1);
  CHECK(summary.above == 1);
  CHECK(summary.rows == 2);
  CHECK(summary.pieces == 3);
  CHECK(summary.elements == 8);
  CHECK(summary.left_out == 3);
  CHECK(summary.padding == 0);
}

TEST_CASE("a row is described with its pieces", "[packed]") {
  const auto source = Pack(ListOf({.lengths = {3, 0, 5, 1}}), Fit(4));
  REQUIRE(source.ok());
  const ExampleDescription row = (*source)->Describe(ExampleId(0));
  CHECK(row.title == "row 0");
  CHECK(std::get<std::uint64_t>(*row.Find("elements")) == 4);
  CHECK(std::get<std::vector<std::string>>(*row.Find("documents")) ==
        std::vector<std::string>{"0", "2"});
  CHECK(std::get<std::vector<std::string>>(*row.Find("begins")) ==
        std::vector<std::string>{"0", "4"});
  CHECK(std::get<std::vector<std::string>>(*row.Find("lengths")) ==
        std::vector<std::string>{"3", "1"});
}

TEST_CASE("batches of an epoch have the pieces of documents that are not dropped", "[packed]") {
  for (const bool by_parts : {false, true}) {
    const auto list = ListOf({.lengths = {2, 2, 1, 3, 2}, .lost = {2}, .by_parts = by_parts});
    const auto source = Pack(list, Fit(4), {1, 4});
    REQUIRE(source.ok());
    const DocumentPacks& packs = *(*source)->packs();
    const auto pieces = [&](std::uint64_t row) {
      return packs.PiecesIn(0, ExampleId(row)).value();
    };
    CHECK(pieces(0) == std::vector<RowPiece>{{ExampleId(0), 0, 2}});
    CHECK(pieces(1) == std::vector<RowPiece>{{ExampleId(3), 0, 3}});
    CHECK(pieces(2).empty());
    CHECK(packs.PiecesOf(ExampleId(2)).value().size() == 1);
  }
}

TEST_CASE("a layout that is kept is found by its key alone", "[packed]") {
  const TempDir dir;
  const auto made = PackLayout::Make({.size = 4}, 2, {.rows = 1, .pieces = 2, .elements = 4}, {1});
  REQUIRE(made.ok());
  const std::vector<std::filesystem::path> folders = {dir / "a"};
  const Digest128 key = Xxh3("key");
  const auto logger = MakeNullLogger();
  CHECK_FALSE(FindLayout(folders, key, made->options(), 2, *logger));
  REQUIRE(KeepLayout(folders, key, *made).ok());
  const auto found = FindLayout(folders, key, made->options(), 2, *logger);
  REQUIRE(found);
  CHECK(found->totals() == made->totals());
  CHECK_FALSE(FindLayout(folders, Xxh3("other"), made->options(), 2, *logger));
  CHECK_FALSE(FindLayout(folders, key, made->options(), 3, *logger));
}

}  // namespace
}  // namespace millrace::test
