#include "common/expand/delivery.h"

#include <rapidcheck/catch.h>
#include <catch2/catch.hpp>

#include <algorithm>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "common/expand/expand.h"
#include "tests/unit/common/expand/delivery_data.h"

namespace millrace {
namespace {

using test::Defined;
using test::DeliveryRow;
using test::DeliveryTensors;
using Names = std::vector<std::string>;
using Shape = std::vector<std::uint64_t>;

ConsumerProgram ProgramText(std::vector<TensorDefinition> definitions, Names outputs,
                            std::map<std::string, Params> pads = {}) {
  TensorGraphText text;
  text.definitions = std::move(definitions);
  text.outputs = std::move(outputs);
  text.pads = std::move(pads);
  return text;
}

Delivery MakeDelivery(ConsumerProgram program, DType index_dtype = DType::kInt32) {
  const Result<Delivery> made = Delivery::Make(DeliveryTensors(), std::move(program), index_dtype);
  INFO((made.ok() ? "" : made.status().message()));
  REQUIRE(made.ok());
  return *made;
}

std::string RefusalOf(ConsumerProgram program) {
  const auto made = Delivery::Make(DeliveryTensors(), std::move(program), DType::kInt32);
  return made.ok() ? "no error" : made.status().message();
}

Params PadParams(std::map<std::string, ParamValue> params) {
  return Params(std::move(params));
}

Names DeliveredNames(const DeliveredBatch& batch) {
  Names names;
  for (const DeliveredTensor& tensor : batch.tensors()) names.push_back(tensor.path);
  return names;
}

std::shared_ptr<const DeliveredBatch> DeliveredOf(const PackedBatch& packed,
                                                  const Delivery& delivery, BufferPool& pool,
                                                  std::optional<RowRange> rows = std::nullopt) {
  const auto delivered = Expand(packed, delivery, pool, rows);
  INFO((delivered.ok() ? "" : delivered.status().message()));
  REQUIRE(delivered.ok());
  return *delivered;
}

/// All values of a tensor of integers.
test::Ints AllValues(const DeliveredBatch& batch, const std::string& name) {
  const DeliveredTensor& tensor = *batch.Find(name);
  test::Ints values;
  for (std::size_t i = 0; i < tensor.bytes / DTypeSize(tensor.dtype); ++i) {
    values.push_back(tensor.ValueAt(i));
  }
  return values;
}

/// Whether the batch has exactly the values of `expected`, ragged ones with splits.
bool HasValuesOf(const DeliveredBatch& batch, const std::string& name,
                 const test::Tensor& expected) {
  const DeliveredTensor* const tensor = batch.Find(name);
  if (tensor == nullptr || tensor->dtype != expected.type.dtype) return false;
  if (tensor->bytes != expected.bytes) return false;
  if (tensor->bytes != 0 && std::memcmp(tensor->data, expected.data(), tensor->bytes) != 0) {
    return false;
  }
  if (!expected.type.ragged) return tensor->kind == TensorKind::kDense;
  return tensor->kind == TensorKind::kRaggedValues &&
         AllValues(batch, tensor->splits) == expected.splits;
}

TEST_CASE("a consumer computes what the same operations give, for any rows", "[delivery]") {
  const std::vector<TensorDefinition> all = test::DeliveryDefinitions();
  rc::prop("any outputs, any part", [&] {
    const auto rows = test::RandomRows(*rc::gen::arbitrary<std::uint64_t>(),
                                       static_cast<std::size_t>(*rc::gen::inRange(0, 12)));
    TensorGraphText text = ProgramText(all, {}).text;
    for (const TensorDefinition& definition : all) {
      if (*rc::gen::inRange(0, 3) == 0) text.outputs->push_back(definition.name);
    }
    for (const char* const name : {"both", "head", "twice", "loud"}) {
      if (std::count(text.outputs->begin(), text.outputs->end(), name) == 0) continue;
      const auto multiple = *rc::gen::inRange<std::int64_t>(0, 4);
      if (multiple > 0) {
        text.pads[name] = PadParams({{"multiple", multiple}, {"value", std::int64_t{7}}});
      }
    }
    const DType index_dtype = *rc::gen::element(DType::kInt32, DType::kInt64);
    const auto first = static_cast<std::size_t>(*rc::gen::inRange<std::size_t>(0, rows.size() + 1));
    const auto count =
        static_cast<std::size_t>(*rc::gen::inRange<std::size_t>(0, rows.size() - first + 1));
    if (text.outputs->empty()) return;
    BufferPool pool;
    const auto packed = test::PackRows(rows, pool);
    const auto batch =
        DeliveredOf(*packed, MakeDelivery(text, index_dtype), pool, RowRange{first, count});
    const auto expected =
        test::RunGraph(text, test::DeliverySources(std::span(rows).subspan(first, count)));
    RC_ASSERT(expected.ok());
    Names names;
    for (const auto& [name, tensor] : *expected) {
      names.push_back(name);
      if (tensor.type.ragged) names.push_back(name + "_splits");
      RC_ASSERT(HasValuesOf(*batch, name, tensor));
    }
    RC_ASSERT(DeliveredNames(*batch) == names);
  });
}

TEST_CASE("the source's tensors come first and expanded, then the computed ones by name",
          "[delivery]") {
  BufferPool pool;
  const auto packed = test::PackRows(test::RandomRows(1, 4), pool);
  const Delivery delivery =
      MakeDelivery(ProgramText(test::DeliveryDefinitions(), {"sf", "wave", "part", "s", "head"}));
  const auto batch = DeliveredOf(*packed, delivery, pool);
  CHECK(DeliveredNames(*batch) ==
        Names{"s", "wave", "wave_splits", "head", "head_splits", "part", "sf"});
  const auto plain = DeliveredOf(*packed, DType::kInt32, pool);
  for (const char* const name : {"s", "wave", "wave_splits"}) {
    const DeliveredTensor& tensor = *batch->Find(name);
    const DeliveredTensor& same = *plain->Find(name);
    CHECK(tensor.dtype == same.dtype);
    CHECK(tensor.shape == same.shape);
    CHECK(std::equal(tensor.data, tensor.data + tensor.bytes, same.data, same.data + same.bytes));
  }
  CHECK(batch->Find("sf")->dimensions == Names{"batch"});
  CHECK(batch->Find("part")->dimensions == Names{"batch", "17"});
  CHECK(batch->Find("head")->dimensions == Names{"head"});
  CHECK(batch->Find("head_splits")->dimensions == Names{"batch+1"});
  CHECK(batch->Find("head_splits")->dtype == DType::kInt32);
  // What a delivery says of itself is what it delivers.
  const std::vector<DeliveryTensor> tensors = delivery.Tensors(DeliveryTensors());
  REQUIRE(tensors.size() == batch->tensors().size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const DeliveredTensor& tensor = batch->tensors()[i];
    CHECK(tensors[i].packed.path == tensor.path);
    CHECK(tensors[i].packed.kind == tensor.kind);
    CHECK(tensors[i].packed.splits == tensor.splits);
    CHECK(tensors[i].dtype == tensor.dtype);
    CHECK(tensors[i].packed.inner.size() + 1 == tensor.shape.size());
    CHECK(tensors[i].computed == (i >= 3));
  }
}

TEST_CASE("what a worker has computed stands among the computed tensors, by its name",
          "[delivery]") {
  BufferPool pool;
  const std::vector<DeliveryRow> rows = test::RandomRows(1, 4);
  const auto packed = test::PackRows(rows, pool);
  // As if wave and flag were no tensors of the source.
  ConsumerProgram program =
      ProgramText(test::DeliveryDefinitions(), {"sf", "wave", "part", "s", "head", "flag", "twice"},
                  {{"twice", PadParams({{"multiple", std::int64_t{2}}})}});
  program.source_tensors = 4;
  const Delivery delivery = MakeDelivery(program);
  const auto batch = DeliveredOf(*packed, delivery, pool);
  CHECK(DeliveredNames(*batch) == Names{"s", "flag", "head", "head_splits", "part", "sf", "twice",
                                        "twice.length", "wave", "wave_splits"});
  Names described;
  for (const DeliveryTensor& tensor : delivery.Tensors(DeliveryTensors())) {
    described.push_back(tensor.packed.path);
    CHECK(tensor.computed == (tensor.packed.path != "s" && tensor.packed.path != "flag" &&
                              tensor.packed.path != "wave" && tensor.packed.path != "wave_splits"));
  }
  CHECK(described == DeliveredNames(*batch));
  const auto flags = batch->Find("flag")->values<std::uint8_t>();
  for (std::size_t i = 0; i < rows.size(); ++i) CHECK((flags[i] == 1) == rows[i].flag);
}

TEST_CASE("a padded tensor of the source keeps its place", "[delivery]") {
  BufferPool pool;
  const auto packed = test::PackRows(test::RandomRows(1, 3), pool);
  const auto batch = DeliveredOf(
      *packed,
      MakeDelivery(ProgramText(test::DeliveryDefinitions(), {"flag", "tokens", "d", "wave", "long"},
                               {{"tokens", {}}, {"wave", {}}})),
      pool);
  CHECK(DeliveredNames(*batch) ==
        Names{"d", "tokens", "wave", "flag", "long", "tokens.length", "wave.length"});
}

TEST_CASE("a padded tensor is dense, and its lengths come with it", "[delivery]") {
  BufferPool pool;
  std::vector<DeliveryRow> rows = test::RandomRows(2, 2);
  rows[0].tokens = {1, 2, 3};
  rows[1].tokens = {4};
  const Delivery delivery = MakeDelivery(ProgramText(
      {}, {"tokens"},
      {{"tokens", PadParams({{"multiple", std::int64_t{2}}, {"value", std::int64_t{-1}}})}}));
  const auto packed = test::PackRows(rows, pool);
  const auto batch = DeliveredOf(*packed, delivery, pool);
  CHECK(DeliveredNames(*batch) == Names{"tokens", "tokens.length"});
  const DeliveredTensor& tokens = *batch->Find("tokens");
  CHECK(tokens.kind == TensorKind::kDense);
  CHECK(tokens.dtype == DType::kInt32);
  CHECK(tokens.shape == Shape{2, 4});
  CHECK(tokens.dimensions == Names{"batch", "4"});
  CHECK(AllValues(*batch, "tokens") == test::Ints{1, 2, 3, -1, 4, -1, -1, -1});
  CHECK(AllValues(*batch, "tokens.length") == test::Ints{3, 1});
  const auto second = DeliveredOf(*packed, delivery, pool, RowRange{1, 1});
  CHECK(AllValues(*second, "tokens") == test::Ints{4, -1});
  CHECK(delivery.Tensors(DeliveryTensors())[0].packed.inner == Shape{0});
  const auto fixed =
      MakeDelivery(ProgramText({}, {"tokens"}, {{"tokens", PadParams({{"to", std::int64_t{6}}})}}),
                   DType::kInt64);
  CHECK(fixed.Tensors(DeliveryTensors())[0].packed.inner == Shape{6});
  CHECK(DeliveredOf(*packed, fixed, pool)->Find("tokens")->dtype == DType::kInt64);
}

TEST_CASE("what is computed of nodes has the nodes of the rows, and their splits", "[delivery]") {
  test::ModelBatch model;
  model.plan.expand.base_edge_labels = 1;
  for (std::uint32_t id = 0; id < 3; ++id) {
    test::ModelExample& example = model.examples.emplace_back();
    example.id = id;
    example.graphs.resize(1);
    for (std::uint32_t node = 0; node <= id; ++node) {
      example.graphs[0].node_labels.push_back(10 * id + node);
    }
  }
  BufferPool pool;
  const auto packed = test::Pack(model, pool);
  const Delivery delivery =
      Delivery::Make(
          test::Tensors(model.plan),
          ProgramText({Defined("x", "cast", {"node_label"}, {{"dtype", std::string("float64")}})},
                      {"x"}),
          DType::kInt32)
          .value();
  const auto batch = DeliveredOf(*packed, delivery, pool, RowRange{1, 2});
  CHECK(DeliveredNames(*batch) == Names{"node_splits", "x"});
  CHECK(AllValues(*batch, "node_splits") == test::Ints{0, 2, 5});
  const DeliveredTensor& x = *batch->Find("x");
  CHECK(x.kind == TensorKind::kRaggedValues);
  CHECK(x.splits == "node_splits");
  CHECK(x.dimensions == Names{"nodes"});
  const auto values = x.values<double>();
  CHECK(std::vector(values.begin(), values.end()) == std::vector<double>{10, 11, 20, 21, 22});
}

TEST_CASE("a program that computes nothing only chooses", "[delivery]") {
  BufferPool pool;
  const auto packed = test::PackRows(test::RandomRows(1, 3), pool);
  const Delivery delivery = MakeDelivery(ProgramText({}, {"flag", "tokens"}));
  CHECK(DeliveredNames(*DeliveredOf(*packed, delivery, pool)) ==
        Names{"tokens", "tokens_splits", "flag"});
  CHECK(LayOutExpanded(*packed, delivery)->computed.empty());
}

TEST_CASE("computing allocates no more memory batch after batch", "[delivery]") {
  BufferPool pool;
  const Delivery delivery =
      MakeDelivery(ProgramText(test::DeliveryDefinitions(), {"twice", "part"}));
  const auto packed = test::PackRows(test::RandomRows(1, 9), pool);
  const internal::BatchComputation* first =
      LayOutExpanded(*packed, delivery)->batch_computation.get();
  CHECK(LayOutExpanded(*packed, delivery)->batch_computation.get() == first);
  const auto held = LayOutExpanded(*packed, delivery);
  CHECK(LayOutExpanded(*packed, delivery)->batch_computation.get() != first);
}

TEST_CASE("padding between computed tensors is zero", "[delivery]") {
  BufferPool pool;
  const Delivery delivery =
      MakeDelivery(ProgramText(test::DeliveryDefinitions(), {"hot", "s", "sf"}));
  const auto packed = test::PackRows(test::RandomRows(1, 3), pool);
  const auto layout = LayOutExpanded(*packed, delivery);
  REQUIRE(layout.ok());
  auto buffer = *pool.Acquire(layout->bytes);
  std::memset(buffer->data(), 0xab, buffer->size());
  REQUIRE(ExpandInto(*packed, *layout, buffer->bytes()).ok());
  const auto batch = ViewExpanded(*packed, *layout, buffer->bytes(), buffer);
  std::uint64_t values = 0;
  for (const DeliveredTensor& tensor : batch->tensors()) {
    for (const std::byte* at = tensor.data + tensor.bytes;
         at < buffer->data() + buffer->size() && (at - buffer->data()) % 64 != 0; ++at) {
      CHECK(*at == std::byte{0});
    }
    values += tensor.bytes;
  }
  CHECK(values == 3 * (2 + 4 + 8));
}

TEST_CASE("a value that an operation refuses fails the batch and says what to do", "[delivery]") {
  BufferPool pool;
  std::vector<DeliveryRow> rows = test::RandomRows(1, 3);
  for (DeliveryRow& row : rows) row.s = 1;
  rows[2].s = 9;
  const Delivery delivery = MakeDelivery(
      ProgramText({Defined("hot", "one_hot", {"s"}, {{"depth", std::int64_t{4}}})}, {"hot"}));
  const auto packed = test::PackRows(rows, pool);
  const auto failed = Expand(*packed, delivery, pool);
  REQUIRE_FALSE(failed.ok());
  CHECK(failed.status().code() == StatusCode::kDataLoss);
  CHECK(failed.status().message() ==
        "tensor hot: one_hot: expected numbers from -1 to 3, got 9, in the batch of epoch 3 from "
        "place 512 on: the values do not suit the pipeline; change its tensors, or leave such "
        "examples out with `filter` or `exclude`");
  // The memory that it had is good for other batches.
  CHECK(Expand(*packed, delivery, pool, RowRange{0, 2}).ok());
}

TEST_CASE("rows that are too long for their padding fail the batch", "[delivery]") {
  BufferPool pool;
  std::vector<DeliveryRow> rows = test::RandomRows(1, 2);
  rows[0].tokens = {};
  rows[1].tokens = {1, 2, 3};
  const Delivery delivery =
      MakeDelivery(ProgramText({}, {"tokens"}, {{"tokens", PadParams({{"to", std::int64_t{2}}})}}));
  const auto failed = Expand(*test::PackRows(rows, pool), delivery, pool);
  REQUIRE_FALSE(failed.ok());
  CHECK(failed.status().message().starts_with(
      "tensor tokens: pad: row 1 of the batch has 3 elements, more than 2, in the batch of epoch"));
}

TEST_CASE("a bool that is neither 0 nor 1 is found before anything is computed", "[delivery]") {
  BufferPool pool;
  const auto packed = test::PackRows(test::RandomRows(1, 1), pool);
  const auto copy = test::CopyOf(packed->bytes(), pool);
  const std::size_t at =
      static_cast<std::size_t>(packed->tensor_bytes(6).data() - packed->bytes().data());
  copy->data()[at] = std::byte{2};
  const auto damaged = PackedBatch::Parse(copy, packed->bytes().size());
  REQUIRE(damaged.ok());
  const auto failed =
      Expand(**damaged,
             MakeDelivery(ProgramText(
                 {Defined("x", "cast", {"flag"}, {{"dtype", std::string("int8")}})}, {"x"})),
             pool);
  REQUIRE_FALSE(failed.ok());
  CHECK(failed.status().message() ==
        "tensor flag: value 2 at element 0 of a bool: expected 0 or 1");
}

Result<std::shared_ptr<const DeliveredBatch>> PaddedBig(const PackedBatch& packed, DType dtype,
                                                        DType index_dtype, BufferPool& pool) {
  return Expand(packed, test::PaddedBigDelivery(dtype, index_dtype), pool);
}

TEST_CASE("a padded integer that does not fit int32 asks for int64", "[delivery]") {
  BufferPool pool;
  const auto packed = test::PackBig(DType::kUint32, 0xfffffffe, pool);
  const auto narrow = PaddedBig(*packed, DType::kUint32, DType::kInt32, pool);
  REQUIRE_FALSE(narrow.ok());
  CHECK(narrow.status().code() == StatusCode::kOutOfRange);
  CHECK(narrow.status().message() ==
        "tensor big: value 4294967294 at element 1 does not fit int32; open the session with "
        "`index_dtype: int64`");
  const auto wide = PaddedBig(*packed, DType::kUint32, DType::kInt64, pool);
  REQUIRE(wide.ok());
  CHECK(AllValues(**wide, "big") == test::Ints{5, 0xfffffffe});
}

TEST_CASE("a padded integer of 64 bits does not fit if its lower half or its bits would",
          "[delivery]") {
  BufferPool pool;
  const auto packed = test::PackBig(DType::kUint64, 6, pool);
  const auto huge = test::PackHuge(pool);
  CHECK(PaddedBig(*packed, DType::kUint64, DType::kInt32, pool).ok());
  CHECK(PaddedBig(*huge, DType::kUint64, DType::kInt32, pool).status().code() ==
        StatusCode::kOutOfRange);
  CHECK(PaddedBig(*packed, DType::kUint64, DType::kInt64, pool).ok());
  CHECK(PaddedBig(*huge, DType::kUint64, DType::kInt64, pool).status() ==
        OutOfRange("tensor big: value 18446744073709551615 at element 1 does not fit int64"));
}

TEST_CASE("a batch with other tensors than its plan is data loss", "[delivery]") {
  BufferPool pool;
  const auto packed = test::PackRows(test::RandomRows(1, 2), pool);
  std::vector<TensorSpec> others = DeliveryTensors();
  others[1].max = 5;
  const Delivery delivery = Delivery::Make(others, ProgramText({}, {"s"}), DType::kInt32).value();
  const auto failed = Expand(*packed, delivery, pool);
  REQUIRE_FALSE(failed.ok());
  CHECK(failed.status().code() == StatusCode::kDataLoss);
}

TEST_CASE("a program that cannot be bound is refused by name", "[delivery]") {
  CHECK(RefusalOf(ProgramText({Defined("x", "bits", {"y"})}, {"x"})) ==
        "x: there is no tensor 'y'");
  CHECK(RefusalOf(ProgramText({}, {"nothing"})) == "output: there is no tensor 'nothing'");
  CHECK(RefusalOf(
            ProgramText({Defined("tokens_splits", "cast", {"s"}, {{"dtype", std::string("int8")}}),
                         Defined("s_splits", "bits", {"d"})},
                        {"tokens", "tokens_splits"})) ==
        "tokens_splits: two tensors of a batch would have this name; give another name to the one "
        "that the pipeline defines (a ragged tensor NAME also has NAME_splits)");
  CHECK(RefusalOf(ProgramText({}, {"tokens"}, {{"tokens", PadParams({{"value", 0.5}})}})) ==
        "tokens: value: is no int32");
}

}  // namespace
}  // namespace millrace
