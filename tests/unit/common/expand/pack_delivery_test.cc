// Tensors of packed rows, made when a batch is delivered, by the host and as a device does it.
#include <rapidcheck.h>
#include <rapidcheck/catch.h>
#include <catch2/catch.hpp>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "common/batch/layout/integer_visit.h"
#include "common/expand/delivery.h"
#include "common/expand/expand.h"
#include "tests/unit/common/expand/device_run.h"
#include "tests/unit/common/expand/packed_rows.h"

namespace millrace {
namespace {

using test::Numbers;
using test::PackedRow;
using test::PackedRowsForm;
using test::RowsModel;

const PackedRowsForm kWithNext = {.next = true};

TensorDefinition OfRows(std::string_view name, Params params = {}) {
  const std::string text(name);
  std::vector<std::string> inputs = {std::string(kPackLengths)};
  if (name == kPackLabel) {
    inputs = {"tokens", std::string(kPackLengths), std::string(kPackNext)};
  }
  return {text, text, std::move(inputs), std::move(params)};
}

/// Delivers all tensors of rows. `padded_to`: the extent of rows; 0: they are not padded.
Result<Delivery> RowsDelivery(const PackedRowsForm& form, DType index_dtype,
                              std::int64_t padded_to = 0) {
  TensorGraphText text;
  text.outputs = std::vector<std::string>{"tokens"};
  for (const std::string_view name : {kPackPosition, kPackSegment, kPackLabel, kPackSeqlens}) {
    const bool counts = name == kPackSeqlens;
    text.definitions.push_back(
        OfRows(name, counts && padded_to != 0 ? Params({{"to", padded_to}}) : Params()));
    text.outputs->emplace_back(name);
  }
  if (padded_to != 0) {
    for (const std::string& name : *text.outputs) {
      if (name == kPackSeqlens) continue;
      text.pads[name] = Params({{"to", padded_to},
                                {"value", std::int64_t{name == kPackLabel ? kNoLabel : 0}},
                                {"length_of", std::string("tokens")}});
    }
  }
  return Delivery::Make(test::PackedRowsTensors(form), std::move(text), index_dtype);
}

Numbers ValuesOf(const DeliveredBatch& batch, std::string_view name) {
  const DeliveredTensor* const tensor = batch.Find(std::string(name));
  REQUIRE(tensor != nullptr);
  Numbers values;
  for (std::size_t i = 0; i < tensor->bytes / DTypeSize(tensor->dtype); ++i) {
    values.push_back(internal::LoadValue(tensor->data, tensor->dtype, i));
  }
  return values;
}

void CheckRows(const DeliveredBatch& batch, const RowsModel& model) {
  RC_ASSERT(ValuesOf(batch, "tokens") == model.tokens);
  RC_ASSERT(ValuesOf(batch, kPackPosition) == model.position);
  RC_ASSERT(ValuesOf(batch, kPackSegment) == model.segment);
  RC_ASSERT(ValuesOf(batch, kPackLabel) == model.label);
  RC_ASSERT(ValuesOf(batch, kPackSeqlens) == model.ends);
}

/// Up to six rows of at most 8 elements.
std::vector<PackedRow> RandomRows() {
  std::vector<PackedRow> rows(*rc::gen::inRange<std::size_t>(0, 7));
  for (PackedRow& row : rows) {
    std::size_t room = *rc::gen::inRange<std::size_t>(1, 9);
    while (room != 0) {
      test::RowPiece piece;
      piece.elements.resize(*rc::gen::inRange<std::size_t>(1, room + 1));
      room -= piece.elements.size();
      for (std::int64_t& element : piece.elements) {
        element = *rc::gen::inRange<std::int64_t>(0, 65536);
      }
      if (*rc::gen::arbitrary<bool>()) piece.next = *rc::gen::inRange<std::int64_t>(0, 65536);
      row.push_back(std::move(piece));
    }
  }
  return rows;
}

TEST_CASE(
    "tensors of packed rows are those of a plain model, padded or not, in any part of a batch",
    "[pack][delivery]") {
  rc::prop("host and device", [] {
    const std::vector<PackedRow> rows = RandomRows();
    PackedRowsForm form = kWithNext;
    form.elements = *rc::gen::element(DType::kUint16, DType::kInt32, DType::kInt64);
    form.lengths = *rc::gen::element(DType::kUint8, DType::kUint16, DType::kUint32, DType::kInt64);
    const DType index_dtype = *rc::gen::element(DType::kInt32, DType::kInt64);
    const std::int64_t padded_to = *rc::gen::element(0, 8, 11);
    const auto micro = *rc::gen::inRange<std::size_t>(1, 4);
    BufferPool pool;
    const auto packed = test::PackedRowsBatch(form, rows, pool);
    const auto delivery = RowsDelivery(form, index_dtype, padded_to);
    if (!delivery.ok()) RC_FAIL(delivery.status().ToString());
    for (std::size_t index = 0; index < micro; ++index) {
      const RowRange range = RowsOfMicroBatch(rows.size(), index, micro);
      const auto batch = Expand(*packed, *delivery, pool, range);
      if (!batch.ok()) RC_FAIL(batch.status().ToString());
      CheckRows(**batch, RowsModel(std::span(rows).subspan(range.first, range.count), padded_to));
      RC_ASSERT((*batch)->Find(std::string(kPackPosition))->dtype == index_dtype);
      RC_ASSERT((*batch)->Find(std::string(kPackSeqlens))->dtype == DType::kInt32);
      const auto compared = test::CompareWithHost(*packed, *delivery, range);
      RC_ASSERT(compared.difference.empty());
      RC_ASSERT(compared.host_outputs == 0u);
    }
  });
}

TEST_CASE("a batch of no rows has one offset, and no elements", "[pack][delivery]") {
  BufferPool pool;
  const auto packed = test::PackedRowsBatch(kWithNext, {}, pool);
  for (const std::int64_t padded_to : {0, 8}) {
    const auto delivery = RowsDelivery(kWithNext, DType::kInt32, padded_to);
    REQUIRE(delivery.ok());
    const auto batch = Expand(*packed, *delivery, pool);
    REQUIRE(batch.ok());
    CHECK(ValuesOf(**batch, kPackSeqlens) == Numbers{0});
    CHECK(ValuesOf(**batch, kPackLabel).empty());
    CHECK(test::CompareWithHost(*packed, *delivery, {0, 0}).difference.empty());
  }
}

TEST_CASE("offsets have rows of their own, and one length comes with padded rows",
          "[pack][delivery]") {
  BufferPool pool;
  const std::vector<PackedRow> rows = {{{0, 0, {1, 2}}, {1, 0, {3}}}, {{2, 0, {4}}}};
  const auto packed = test::PackedRowsBatch(kWithNext, rows, pool);
  const auto delivery = RowsDelivery(kWithNext, DType::kInt32, 4).value();
  const auto batch = Expand(*packed, delivery, pool).value();
  const DeliveredTensor& ends = *batch->Find(std::string(kPackSeqlens));
  CHECK(ends.dimensions == std::vector<std::string>{std::string(kPackSeqlensRows)});
  CHECK(ends.kind == TensorKind::kSplits);
  CHECK(ends.shape == std::vector<std::uint64_t>{6});
  CHECK(ValuesOf(*batch, kPackSeqlens) == Numbers{0, 2, 3, 4, 5, 8});
  CHECK(batch->Find(std::string(kPackPosition))->shape == std::vector<std::uint64_t>{2, 4});
  CHECK(ValuesOf(*batch, "tokens.length") == Numbers{3, 1});
  CHECK(batch->Find("pack.position.length") == nullptr);
}

/// The error of a batch of rows, the same for host and device.
Status ErrorOf(const PackedRowsForm& form, const std::vector<PackedRow>& rows,
               std::int64_t padded_to = 0, DType index_dtype = DType::kInt32) {
  BufferPool pool;
  const auto packed = test::PackedRowsBatch(form, rows, pool);
  const auto delivery = RowsDelivery(form, index_dtype, padded_to).value();
  const auto compared = test::CompareWithHost(*packed, delivery, {0, rows.size()});
  CHECK(compared.difference.empty());
  return compared.host;
}

TEST_CASE("a row that is longer than rows are padded to is refused", "[pack][delivery]") {
  const Status status = ErrorOf(kWithNext, {{{0, 0, {1, 2, 3}}}}, 2);
  CHECK(status.code() == StatusCode::kDataLoss);
  CHECK_THAT(status.message(), Catch::Contains("has 3 elements, more than 2"));
}

TEST_CASE("a label that the index type does not hold is refused", "[pack][delivery]") {
  PackedRowsForm form = kWithNext;
  form.elements = DType::kInt64;
  const std::int64_t big = std::int64_t{1} << 31;
  const std::vector<PackedRow> rows = {{{0, 0, {1}, big}}};
  const Status status = ErrorOf(form, rows);
  CHECK(status.code() == StatusCode::kOutOfRange);
  CHECK_THAT(status.message(), Catch::Contains("pack.next") && Catch::Contains("index_dtype"));
  CHECK(ErrorOf(form, rows, 0, DType::kInt64).ok());
}

TEST_CASE("rows of other lengths than their pieces are refused", "[pack][delivery]") {
  // The batch is as a faulty worker sends it.
  const auto error = [](const Numbers& lengths, std::size_t nexts) {
    BufferPool pool;
    PackedRowsForm form = kWithNext;
    form.lengths = DType::kInt64;
    auto writer = BatchWriter::Create(test::PackedRowsTensors(form), {}, pool).value();
    writer.Begin({}, 0, 0, 1);
    for (int i = 0; i < 3; ++i) {
      writer.AppendOne(0, i);
      writer.AppendOne(2, 0);
    }
    for (const std::int64_t length : lengths) writer.AppendOne(4, length);
    for (std::size_t i = 0; i < nexts; ++i) writer.AppendOne(6, kNoLabel);
    writer.EndExample(ExampleId(0));
    const auto packed = writer.Seal().value();
    const auto delivery = RowsDelivery(form, DType::kInt32).value();
    const auto compared = test::CompareWithHost(*packed, delivery, {0, 1});
    CHECK(compared.difference.empty());
    return std::string(compared.host.message());
  };
  CHECK(error({2, 1}, 2).empty());
  CHECK_THAT(error({2}, 1), Catch::Contains("other lengths than their pieces together"));
  CHECK_THAT(error({2, 2}, 2), Catch::Contains("other lengths than their pieces together"));
  CHECK_THAT(error({2, 1}, 1), Catch::Contains("one number for each piece"));
  for (const std::int64_t bad : {std::int64_t{0}, std::int64_t{-1}, std::int64_t{1} << 21,
                                 std::numeric_limits<std::int64_t>::max()}) {
    CHECK_THAT(error({3, bad}, 2), Catch::Contains(std::to_string(bad) + " elements after 3"));
  }
}

TEST_CASE("offsets beyond int32 are refused", "[pack][delivery]") {
  // Rows of padding alone, so that no memory is needed for elements.
  constexpr std::int64_t kMost = std::int64_t{1} << 31;
  const auto status = [](std::int64_t padded_to, std::size_t rows) {
    BufferPool pool;
    TensorGraphText text;
    text.definitions = {OfRows(kPackSeqlens, Params({{"to", padded_to}}))};
    text.outputs = std::vector<std::string>{std::string(kPackSeqlens)};
    const auto delivery =
        Delivery::Make(test::PackedRowsTensors(kWithNext), std::move(text), DType::kInt64).value();
    const std::vector<PackedRow> all(rows, PackedRow{{0, 0, {1}}});
    return Expand(*test::PackedRowsBatch(kWithNext, all, pool), delivery, pool).status();
  };
  CHECK(status(kMost / 4 - 1, 4).ok());
  CHECK(status(kMost - 1, 1).ok());
  const Status refused = status(kMost / 4, 4);
  CHECK(refused.code() == StatusCode::kDataLoss);
  CHECK_THAT(refused.message(), Catch::Contains("2147483648 elements") && Catch::Contains("micro"));
}

TEST_CASE("operations read positions as int64, and no operation reads offsets",
          "[pack][delivery]") {
  const auto deliver = [](const char* read) {
    TensorGraphText text;
    text.definitions = {OfRows(read),
                        {"twice", "expr", {read}, Params({{"expr", std::string(read) + " * 2"}})}};
    text.outputs = std::vector<std::string>{"twice", read};
    return Delivery::Make(test::PackedRowsTensors(kWithNext), std::move(text), DType::kInt32);
  };
  BufferPool pool;
  const std::vector<PackedRow> rows = {{{0, 0, {7, 8, 9}}}};
  const auto batch =
      Expand(*test::PackedRowsBatch(kWithNext, rows, pool), deliver("pack.position").value(), pool)
          .value();
  CHECK(ValuesOf(*batch, "twice") == Numbers{0, 2, 4});
  CHECK(batch->Find("twice")->dtype == DType::kInt64);
  CHECK(batch->Find("pack.position")->dtype == DType::kInt32);
  CHECK_THAT(deliver("pack.cu_seqlens").status().message(),
             Catch::Contains("no operation can read pack.cu_seqlens"));
}

TEST_CASE("operations of packed rows take tensors of the source only", "[pack][delivery]") {
  // A dispatcher could ask for anything.
  TensorGraphText text;
  text.definitions = {
      {"sum", "expr", {"pack.lengths"}, Params({{"expr", std::string("pack.lengths + 1")}})},
      {"p", "pack.position", {"sum"}}};
  text.outputs = std::vector<std::string>{"p"};
  const auto refused =
      Delivery::Make(test::PackedRowsTensors(kWithNext), std::move(text), DType::kInt32);
  CHECK(refused.status().message() == "p: sum is no tensor of the source");
}

}  // namespace
}  // namespace millrace
