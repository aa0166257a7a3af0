// Tensors of packed rows in a plan: from what a source of rows has to what is delivered.
#include "server/plan/tensors/pack_outputs.h"

#include <rapidcheck.h>
#include <rapidcheck/catch.h>
#include <catch2/catch.hpp>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "common/batch/layout/integer_visit.h"
#include "common/batch/layout/tensor_table.h"
#include "common/expand/delivery.h"
#include "common/expand/expand.h"
#include "common/transport/convert/tensor_program.h"
#include "server/plan/tensors/function_calls.h"
#include "server/plan/tensors/function_graph.h"
#include "server/plan/tensors/tensor_plan.h"
#include "tests/support/skip.h"
#include "tests/unit/common/expand/packed_rows.h"
#include "tests/unit/server/plan/text/pipeline_text.h"

namespace millrace {
namespace {

using Json = nlohmann::json;
using Names = std::vector<std::string>;
using test::Numbers;
using test::PackedRow;
using test::PackedRowsForm;

/// The tensors of a pipeline over rows of 8 elements.
TensorsPart PackedPartOf(const std::string& yaml) {
  TensorsPart part = test::MustParse(test::Minimal(yaml)).tensors();
  part.pack = PackTensors{"tokens", {"mask"}, 8};
  return part;
}

PackedRowsForm FormOf(const TensorsPart& part) {
  const PackNeeds needs = PackNeedsOf(part);
  return {.documents = needs.documents, .begins = needs.begins, .next = needs.next};
}

Result<std::shared_ptr<const TensorPlan>> Compile(const TensorsPart& part) {
  return TensorPlan::Compile(part, test::PackedRowsTensors(FormOf(part)), ExpandSpec{});
}

std::string ErrorOf(const std::string& yaml) {
  return std::string(Compile(PackedPartOf(yaml)).status().message());
}

Names Travelling(const std::string& yaml) {
  const auto plan = Compile(PackedPartOf(yaml));
  INFO(plan.status().ToString());
  REQUIRE(plan.ok());
  Names names;
  for (const TensorSpec& tensor : (*plan)->tensors()) {
    if (tensor.kind != TensorKind::kSplits) names.push_back(tensor.path);
  }
  return names;
}

/// A batch from the source to the loop.
std::shared_ptr<const DeliveredBatch> Deliver(const TensorsPart& part,
                                              const std::vector<PackedRow>& rows,
                                              DType index_dtype = DType::kInt32) {
  const PackedRowsForm form = FormOf(part);
  const auto plan = Compile(part);
  INFO(plan.status().ToString());
  REQUIRE(plan.ok());
  BufferPool pool;
  auto writer = BatchWriter::Create(test::PackedRowsTensors(form), ExpandSpec{}, pool).value();
  writer.Begin({}, 0, 0, static_cast<std::uint32_t>(rows.size()));
  test::AppendPackedRows(form, rows, writer);
  const auto scratch = (*plan)->NewScratch();
  REQUIRE((*plan)->Compute(writer, *scratch).ok());
  const auto packed = (*plan)->Seal(writer, *scratch, pool).value();
  Delivery delivery(index_dtype);
  if ((*plan)->consumer()) {
    // As a client gets it.
    v1::TensorProgram message;
    ToProto(*(*plan)->consumer(), OperationTable::Default(), &message);
    delivery = Delivery::Make((*plan)->tensors(),
                              FromProto(message, OperationTable::Default()).value(), index_dtype)
                   .value();
  }
  const auto batch = Expand(*packed, delivery, pool);
  INFO(batch.status().ToString());
  REQUIRE(batch.ok());
  return *batch;
}

Names Delivered(const DeliveredBatch& batch) {
  Names names;
  for (const DeliveredTensor& tensor : batch.tensors()) {
    if (tensor.kind != TensorKind::kSplits) names.push_back(tensor.path);
  }
  return names;
}

Numbers ValuesOf(const DeliveredTensor& tensor) {
  Numbers values;
  for (std::size_t i = 0; i < tensor.bytes / DTypeSize(tensor.dtype); ++i) {
    values.push_back(internal::LoadValue(tensor.data, tensor.dtype, i));
  }
  return values;
}

/// The values of a tensor, as lists of rows if it has some.
Json RowsOf(const DeliveredBatch& batch, const std::string& name) {
  const DeliveredTensor* const tensor = batch.Find(name);
  INFO(name);
  REQUIRE(tensor != nullptr);
  const Numbers values = ValuesOf(*tensor);
  const auto cut = [&](std::size_t begin, std::size_t end) {
    return Json(Numbers(values.begin() + static_cast<std::ptrdiff_t>(begin),
                        values.begin() + static_cast<std::ptrdiff_t>(end)));
  };
  Json rows = Json::array();
  if (tensor->splits.empty() && tensor->shape.size() == 1) return values;
  if (tensor->splits.empty()) {
    for (std::size_t row = 0; row < tensor->shape[0]; ++row) {
      rows.push_back(cut(row * tensor->shape[1], (row + 1) * tensor->shape[1]));
    }
    return rows;
  }
  const Numbers splits = ValuesOf(*batch.Find(tensor->splits));
  for (std::size_t row = 0; row + 1 < splits.size(); ++row) {
    rows.push_back(
        cut(static_cast<std::size_t>(splits[row]), static_cast<std::size_t>(splits[row + 1])));
  }
  return rows;
}

const std::vector<PackedRow> kTwoRows = {
    {{10, 0, {11, 12, 13}, 14}, {11, 2, {21}, kNoLabel}},
    {{10, 3, {14, 15}, kNoLabel}},
};

// --- Golden vectors ----------------------------------------------------------------------------

/// The documents of a recorded batch.
class GoldenDocuments {
 public:
  explicit GoldenDocuments(const Json& params)
      : lengths_(params["lengths"]),
        before_(params.value("before", Numbers())),
        after_(params.value("after", Numbers())) {}

  /// A document's elements, as the README of the vectors says.
  Numbers Elements(std::size_t document) const {
    Numbers all = before_;
    for (std::int64_t j = 0; j < lengths_[document].get<std::int64_t>(); ++j) {
      all.push_back((31 * static_cast<std::int64_t>(document) + j) % 997 + 3);
    }
    all.insert(all.end(), after_.begin(), after_.end());
    return all;
  }

 private:
  Json lengths_;
  Numbers before_;
  Numbers after_;
};

std::vector<PackedRow> GoldenRows(const Json& params, const Json& expected) {
  const GoldenDocuments documents(params);
  std::vector<PackedRow> rows;
  for (std::size_t row = 0; row < expected["lengths"].size(); ++row) {
    PackedRow& made = rows.emplace_back();
    for (std::size_t k = 0; k < expected["lengths"][row].size(); ++k) {
      const auto document = expected["documents"][row][k].get<std::size_t>();
      const auto begin = expected["begins"][row][k].get<std::ptrdiff_t>();
      const auto length = expected["lengths"][row][k].get<std::ptrdiff_t>();
      const Numbers all = documents.Elements(document);
      made.push_back({static_cast<std::int64_t>(document), begin,
                      Numbers(all.begin() + begin, all.begin() + begin + length),
                      begin + length < std::ssize(all)
                          ? all[static_cast<std::size_t>(begin + length)]
                          : kNoLabel});
    }
  }
  return rows;
}

TEST_CASE("tensors of packed rows are the recorded ones", "[pack][golden]") {
  const std::string path = test::SharedDirOrSkip() + "/golden-packs/golden.jsonl";
  std::ifstream file(path);
  if (!file) test::SkipTest("no file " + path);
  std::size_t cases = 0;
  for (std::string line; std::getline(file, line);) {
    const Json one = Json::parse(line);
    if (one["case"] != "batch") continue;
    ++cases;
    const Json& expected = one["expected"];
    std::string yaml =
        "output: [tokens, pack.lengths, pack.documents, pack.begins, pack.position, pack.segment, "
        "pack.label, pack.cu_seqlens]\n";
    const Json& to = one["params"]["to"];
    if (!to.is_null()) yaml += fmt::format("pad: {{pack: {{to: {}}}}}\n", to.get<int>());
    TensorsPart part = PackedPartOf(yaml);
    part.pack->size = one["params"]["size"].get<std::uint32_t>();
    const auto batch = Deliver(part, GoldenRows(one["params"], expected));
    INFO(line);
    CHECK(RowsOf(*batch, "tokens") == expected["tensor"]);
    CHECK(RowsOf(*batch, "pack.lengths") == expected["lengths"]);
    CHECK(RowsOf(*batch, "pack.documents") == expected["documents"]);
    CHECK(RowsOf(*batch, "pack.begins") == expected["begins"]);
    CHECK(RowsOf(*batch, "pack.position") == expected["position"]);
    CHECK(RowsOf(*batch, "pack.segment") == expected["segment"]);
    CHECK(RowsOf(*batch, "pack.label") == expected["label"]);
    CHECK(RowsOf(*batch, "pack.cu_seqlens") == expected["cu_seqlens"]);
  }
  CHECK(cases > 5);
}

// --- What a pipeline names ---------------------------------------------------------------------

TEST_CASE("a source of rows gives only what the pipeline uses", "[pack]") {
  const auto needs = [](const std::string& yaml) { return PackNeedsOf(PackedPartOf(yaml)); };
  CHECK(needs("") == PackNeeds{});
  CHECK(needs("output: [tokens, pack.position, pack.segment, pack.cu_seqlens]") == PackNeeds{});
  CHECK(needs("output: [pack.label]") == PackNeeds{.next = true});
  CHECK(needs("tensors: {x: {cast: pack.label, dtype: int32}}") == PackNeeds{.next = true});
  CHECK(needs("tensors: {x: {cast: pack.label.length, dtype: int32}}") == PackNeeds{.next = true});
  CHECK(needs("output: [pack.documents, pack.begins]") == PackNeeds{true, true, false});
}

TEST_CASE("a mix knows what it reads of its branches' rows", "[pack]") {
  const auto reads = [](const std::string& yaml) { return PackReads(PackedPartOf(yaml)); };
  CHECK(reads("output: [tokens]").empty());
  CHECK(reads("output: [pack.position, pack.cu_seqlens]") == Names{"pack.lengths"});
  CHECK(reads("output: [pack.label]") == Names{"tokens", "pack.lengths", "pack.next"});
  CHECK(reads("output: [pack.position]\npad: {pack: {}}") == Names{"pack.lengths", "tokens"});
  TensorsPart part = PackedPartOf("output: [pack.label]");
  part.pack.reset();
  CHECK(PackReads(part).empty());
}

TEST_CASE("what follows from pieces is left to the consumer", "[pack][transfer_cut]") {
  CHECK(Travelling("output: [pack.position, pack.segment, pack.cu_seqlens]") ==
        Names{"pack.lengths"});
  CHECK(Travelling("output: [pack.label]") == Names{"tokens", "pack.lengths", "pack.next"});
  CHECK(Travelling("tensors: {x: {cast: pack.label, dtype: int32}}\noutput: [x, tokens]") ==
        Names{"tokens", "pack.lengths", "pack.next"});
  // The lengths of rows are a number each.
  CHECK(Travelling("output: [pack.position]\npad: {pack: {}}") ==
        Names{"pack.lengths", "tokens.length"});
  // A user may want it otherwise.
  CHECK(Travelling("tensors: {x: {cast: pack.position, dtype: int8, at: worker}}\noutput: [x]") ==
        Names{"x"});
}

TEST_CASE("the consumer makes labels of wide elements too, in its own index type",
          "[pack][transfer_cut]") {
  const TensorsPart part = PackedPartOf("output: [pack.label]");
  PackedRowsForm form = FormOf(part);
  form.elements = DType::kInt64;
  const auto plan = TensorPlan::Compile(part, test::PackedRowsTensors(form), ExpandSpec{}).value();
  CHECK(FindTensor(plan->tensors(), "tokens"));
  const auto delivery = Delivery::Make(plan->tensors(), *plan->consumer(), DType::kInt32).value();
  CHECK(delivery.Tensors(plan->tensors()).front().dtype == DType::kInt32);
}

TEST_CASE("without outputs, rows are delivered as their source has them", "[pack]") {
  const Names all = {"tokens", "mask", "pack.lengths"};
  CHECK(Delivered(*Deliver(PackedPartOf(""), kTwoRows)) == all);
  // Reading a tensor of rows takes no other away.
  const auto batch =
      Deliver(PackedPartOf("tensors: {x: {expr: pack.label + pack.position}}"), kTwoRows);
  CHECK(Delivered(*batch) == Names{"tokens", "mask", "pack.lengths", "x"});
  CHECK(RowsOf(*batch, "x") == Json::parse("[[12, 14, 16, -100], [15, -99]]"));
}

TEST_CASE("a function of a plugin reads tensors of rows", "[pack][function_graph]") {
  const TensorsPart part = PackedPartOf(
      "tensors: {f: {python: 'm:f', inputs: [pack.label, pack.segment], type: 'int64[*]'}}\n");
  const PackedRowsForm form = FormOf(part);
  CHECK(form.next);
  const std::vector<TensorSpec> source = test::PackedRowsTensors(form);
  const FunctionCalls calls = FunctionCalls::Find(part, {}).value();
  const auto graph = FunctionGraph::Bind(calls.others(), calls.calls(), source, {});
  INFO(graph.status().ToString());
  REQUIRE(graph.ok());
  BufferPool pool;
  auto writer = BatchWriter::Create(source, ExpandSpec{}, pool).value();
  writer.Begin({}, 0, 0, 2);
  test::AppendPackedRows(form, kTwoRows, writer);
  FunctionGraph::Run run(*graph);
  run.Begin(writer);
  const auto inputs = run.Inputs(0).value();
  const auto values = [](const TensorView& view) {
    const auto* const begin = reinterpret_cast<const std::int64_t*>(view.values.data());
    return Numbers(begin, begin + view.units());
  };
  CHECK(values(inputs[0]) == Numbers{12, 13, 14, kNoLabel, 15, kNoLabel});
  CHECK(values(inputs[1]) == Numbers{1, 1, 1, 2, 1, 1});
  // Labels are made of a tensor that is no output.
  CHECK(calls.Rest(source).outputs == Names{"tokens", "mask", "pack.lengths", "f"});
}

TEST_CASE("nobody sees what labels are made of", "[pack]") {
  CHECK_THAT(ErrorOf("output: [pack.label, pack.next]"),
             Catch::Contains("output: there is no tensor 'pack.next'"));
  CHECK_THAT(ErrorOf("tensors: {x: {cast: pack.next, dtype: int8}}"),
             Catch::Contains("there is no tensor 'pack.next'"));
}

TEST_CASE("the operations of packed rows cannot be written", "[pack]") {
  for (const char* const name : {"pack.position", "pack.cu_seqlens"}) {
    const std::string yaml =
        test::Minimal(fmt::format("tensors: {{x: {{{}: pack.lengths}}}}", name));
    CHECK_THAT(test::ErrorOf(yaml),
               Catch::Contains(fmt::format("there is no operation '{}'", name)));
  }
}

TEST_CASE("labels are made of integers", "[pack]") {
  TensorsPart part = PackedPartOf("output: [pack.label]");
  auto source = test::PackedRowsTensors(FormOf(part));
  source[0].dtype = DType::kFloat32;
  source[0].min = source[0].max = 0;
  source[0].expansion = Expansion::kKeep;
  CHECK_THAT(TensorPlan::Compile(part, source, ExpandSpec{}).status().message(),
             Catch::Contains("pack.label: expected elements that can be labels, a row of integers "
                             "without inner extents, got float32[batch, *]"));
}

// --- pad.pack ----------------------------------------------------------------------------------

TEST_CASE("pad.pack pads all outputs that are cut as the rows, and no other", "[pack][pad]") {
  const auto batch = Deliver(
      PackedPartOf(
          "tensors: {x: {expr: tokens * 2}, hot: {one_hot: mask, depth: 5}, "
          "y: {slice: tokens, axis: 1, range: [0, 1]}, both: {concat: [tokens, tokens], axis: 1}, "
          "wide: {bits: mask}}\n"
          "output: [tokens, mask, x, hot, y, both, wide, pack.lengths, pack.position, "
          "pack.segment, "
          "pack.label, pack.cu_seqlens]\n"
          "pad: {pack: {}, mask: {value: 9}, pack.segment: {value: -1}}"),
      kTwoRows);
  const auto shape = [&](const char* name) { return batch->Find(name)->shape; };
  CHECK(shape("hot") == std::vector<std::uint64_t>{2, 8, 5});
  CHECK(RowsOf(*batch, "tokens") ==
        Json::parse("[[11, 12, 13, 21, 0, 0, 0, 0], [14, 15, 0, 0, 0, 0, 0, 0]]"));
  CHECK(RowsOf(*batch, "x")[1] == Json::parse("[28, 30, 0, 0, 0, 0, 0, 0]"));
  CHECK(RowsOf(*batch, "mask")[1] == Json::parse("[3, 0, 9, 9, 9, 9, 9, 9]"));
  CHECK(RowsOf(*batch, "pack.segment")[0] == Json::parse("[1, 1, 1, 2, -1, -1, -1, -1]"));
  CHECK(RowsOf(*batch, "pack.label")[0] ==
        Json::parse("[12, 13, 14, -100, -100, -100, -100, -100]"));
  CHECK(RowsOf(*batch, "pack.cu_seqlens") == Json::parse("[0, 3, 4, 8, 10, 16]"));
  CHECK(RowsOf(*batch, "y") == Json::parse("[[11], [14]]"));
  CHECK(RowsOf(*batch, "both")[1] == Json::parse("[14, 15, 14, 15]"));
  CHECK(shape("wide") == std::vector<std::uint64_t>{48});
  CHECK(RowsOf(*batch, "pack.lengths") == Json::parse("[[3, 1], [2]]"));
  CHECK(RowsOf(*batch, "tokens.length") == Json::parse("[4, 2]"));
  Names lengths = Delivered(*batch);
  std::erase_if(lengths, [](const std::string& name) { return !name.ends_with(".length"); });
  CHECK(lengths == Names{"tokens.length"});
}

TEST_CASE("pad.pack pads rows without outputs that are named", "[pack][pad]") {
  const auto batch = Deliver(PackedPartOf("pad: {pack: {}}"), kTwoRows);
  CHECK(Delivered(*batch) == Names{"tokens", "mask", "pack.lengths", "tokens.length"});
  CHECK(batch->Find("mask")->shape == std::vector<std::uint64_t>{2, 8});
}

TEST_CASE("rows are padded to pack.size, or to more", "[pack][pad]") {
  const auto extent = [](const std::string& yaml) {
    return Deliver(PackedPartOf("output: [pack.position]\n" + yaml), kTwoRows)
        ->Find("pack.position")
        ->shape.back();
  };
  CHECK(extent("pad: {pack: {}}") == 8);
  CHECK(extent("pad: {pack: {to: 8}}") == 8);
  CHECK(extent("pad: {pack: {to: 13}}") == 13);
  CHECK_THAT(ErrorOf("pad: {pack: {to: 7}}"),
             Catch::Contains("pad.pack.to: rows have up to 8 elements (pack.size), got 7"));
}

TEST_CASE("pad.pack takes `to` only, and the outputs that it pads `value` only", "[pack][pad]") {
  CHECK_THAT(ErrorOf("pad: {pack: {value: 1}}"), Catch::Contains("takes only `to`"));
  CHECK_THAT(ErrorOf("pad: {pack: {to: bound}}"),
             Catch::Contains("pad.pack.to: expected a number of elements, got 'bound'"));
  CHECK_THAT(ErrorOf("output: [pack.label]\npad: {pack: {}, pack.label: {to: 9}}"),
             Catch::Contains("pad.pack.label.to: pad.pack says how long its rows are"));
  CHECK_THAT(ErrorOf("output: [tokens]\npad: {pack: {}, tokens: {multiple: 8}}"),
             Catch::Contains("pad.tokens.multiple: pad.pack says how long its rows are"));
}

TEST_CASE("other tensors of rows are padded by all keys of their own", "[pack][pad]") {
  const auto batch =
      Deliver(PackedPartOf("output: [tokens, pack.lengths, pack.position]\n"
                           "pad: {pack.lengths: {multiple: 4}, pack.position: {to: 5, value: -1}}"),
              kTwoRows);
  CHECK(RowsOf(*batch, "pack.lengths") == Json::parse("[[3, 1, 0, 0], [2, 0, 0, 0]]"));
  CHECK(RowsOf(*batch, "pack.position") == Json::parse("[[0, 1, 2, 0, -1], [0, 1, -1, -1, -1]]"));
  CHECK(RowsOf(*batch, "pack.position.length") == Json::parse("[4, 2]"));
  CHECK(RowsOf(*batch, "tokens") == Json::parse("[[11, 12, 13, 21], [14, 15]]"));
}

TEST_CASE("offsets of rows without padding go with no padded output", "[pack][pad]") {
  CHECK_THAT(ErrorOf("output: [tokens, pack.cu_seqlens]\npad: {tokens: {multiple: 8}}"),
             Catch::Contains("pad.tokens: pack.cu_seqlens counts rows one after another"));
  const auto batch =
      Deliver(PackedPartOf("output: [pack.lengths, pack.cu_seqlens]\npad: {pack.lengths: {to: 2}}"),
              kTwoRows);
  CHECK(RowsOf(*batch, "pack.cu_seqlens") == Json::parse("[0, 3, 4, 6]"));
}

TEST_CASE("without packed rows, pad.pack pads the tensor of this name", "[pack][pad]") {
  TensorsPart part = PackedPartOf(
      "tensors: {pack: {cast: mask, dtype: int32}}\noutput: [pack]\npad: {pack: {to: 9}}");
  part.pack.reset();
  CHECK(Deliver(part, kTwoRows)->Find("pack")->shape == std::vector<std::uint64_t>{2, 9});
  part = PackedPartOf("output: [mask]\npad: {pack: {}}");
  part.pack.reset();
  CHECK_THAT(Compile(part).status().message(), Catch::Contains("pad.pack: rows are not packed"));
  CHECK_THAT(ErrorOf("tensors: {pack: {cast: mask, dtype: int32}}"),
             Catch::Contains("tensors.pack: beside the stage `pack`"));
}

}  // namespace
}  // namespace millrace
