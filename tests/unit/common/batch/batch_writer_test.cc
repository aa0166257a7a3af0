#include <rapidcheck.h>
#include <catch2/catch.hpp>

#include <rapidcheck/catch.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "common/batch/batch_writer.h"
#include "common/batch/late_rows.h"
#include "tests/unit/common/batch/model_batch.h"

namespace millrace {
namespace {

using test::ModelBatch;
using test::Values;

ModelBatch AnyBatch() {
  const auto seed = *rc::gen::arbitrary<std::uint64_t>();
  ModelBatch batch = test::RandomBatch(seed, *rc::gen::inRange(0, 20));
  return *rc::gen::arbitrary<bool>() ? test::Merged(std::move(batch)) : batch;
}

std::vector<std::byte> BytesOf(const PackedBatch& batch) {
  return {batch.bytes().begin(), batch.bytes().end()};
}

/// The values that the tensor `path` of the packed form must hold; a function gives those of each
/// example.
template <class F>
std::vector<std::int64_t> Gathered(const ModelBatch& batch, F&& values_of) {
  std::vector<std::int64_t> all;
  for (const test::ModelExample& example : batch.examples) {
    for (const auto value : values_of(example)) all.push_back(static_cast<std::int64_t>(value));
  }
  return all;
}

TEST_CASE("random batches of random specs come back from their bytes", "[batch]") {
  rc::prop("writer -> bytes -> Parse", [] {
    const ModelBatch model = AnyBatch();
    BufferPool pool;
    const auto sealed = test::Pack(model, pool);
    auto parsed = PackedBatch::Parse(test::CopyOf(sealed->bytes(), pool), sealed->bytes().size());
    if (!parsed.ok()) RC_FAIL(parsed.status().ToString());
    const PackedBatch& batch = **parsed;
    RC_ASSERT(batch.info() == sealed->info());
    RC_ASSERT(batch.info().fingerprint == model.fingerprint);
    RC_ASSERT(batch.info().epoch == model.epoch);
    RC_ASSERT(batch.info().first_example == model.first_example);
    RC_ASSERT(batch.info().planned_examples == model.examples.size() + model.dropped.size());
    RC_ASSERT(batch.info().expand == model.plan.expand);
    RC_ASSERT(batch.info().dropped == model.dropped);
    RC_ASSERT(batch.info().lost_pieces == model.lost_pieces);
    RC_ASSERT(batch.examples() == model.examples.size());
    const std::vector<TensorSpec> specs = test::Tensors(model.plan);
    RC_ASSERT(batch.tensors().size() == specs.size());
    for (std::size_t i = 0; i < specs.size(); ++i) {
      RC_ASSERT(batch.tensors()[i].spec == specs[i]);
      RC_ASSERT(batch.tensors()[i].offset == sealed->tensors()[i].offset);
      RC_ASSERT(batch.tensors()[i].offset % kTensorAlignment == 0);
    }
    RC_ASSERT(Values(batch, "local_args") ==
              Gathered(model, [](const test::ModelExample& e) { return e.args; }));
    RC_ASSERT(Values(batch, "local_context") ==
              Gathered(model, [](const test::ModelExample& e) { return e.context; }));
    RC_ASSERT(Values(batch, "example_id") ==
              Gathered(model, [](const test::ModelExample& e) { return std::vector{e.id}; }));
    for (std::size_t b = 0; b < model.plan.branches.size(); ++b) {
      std::vector<std::int64_t> labels;
      std::vector<std::int64_t> targets;
      std::vector<std::int64_t> splits = {0};
      for (const test::ModelGraph& graph : model.GraphsOf(b)) {
        labels.insert(labels.end(), graph.node_labels.begin(), graph.node_labels.end());
        for (const auto& edge : graph.edges) targets.push_back(edge.target);
        splits.push_back(static_cast<std::int64_t>(labels.size()));
      }
      RC_ASSERT(Values(batch, model.plan.branches[b] + "node_label") == labels);
      RC_ASSERT(Values(batch, model.plan.branches[b] + "edge_target") == targets);
      RC_ASSERT(Values(batch, model.plan.branches[b] + "node_splits") == splits);
    }
    for (std::size_t i = 0; i < model.plan.declared.size(); ++i) {
      std::string expected;
      for (const test::ModelExample& e : model.examples) expected += e.declared[i];
      const auto bytes = batch.tensor_bytes(*batch.Find(model.plan.declared[i].path));
      RC_ASSERT(expected == std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
    }
    RC_ASSERT(batch.digest() == sealed->digest());
    RC_ASSERT(batch.payload_hash() == sealed->payload_hash());
  });
}

TEST_CASE("every byte of a payload that is no tensor's is zero", "[batch]") {
  rc::prop("padding", [] {
    BufferPool pool;
    const auto batch = test::Pack(AnyBatch(), pool);
    std::vector<std::byte> payload(batch->payload().begin(), batch->payload().end());
    for (const TensorPlace& tensor : batch->tensors()) {
      std::memset(payload.data() + tensor.offset, 0, tensor.bytes);
    }
    RC_ASSERT(
        std::all_of(payload.begin(), payload.end(), [](std::byte b) { return b == std::byte{0}; }));
  });
}

TEST_CASE("what a writer wrote before does not show in its bytes", "[batch]") {
  rc::prop("two writers with different histories", [] {
    const ModelBatch model = AnyBatch();
    BufferPool fresh;
    const auto expected = test::Pack(model, fresh);

    BufferPool used;
    {
      auto dirty = used.Acquire(expected->bytes().size());
      std::memset((*dirty)->data(), 0xff, (*dirty)->capacity());
    }
    auto writer = BatchWriter::Create(test::Tensors(model.plan), model.plan.expand, used);
    ModelBatch earlier = test::RandomBatch(*rc::gen::arbitrary<std::uint64_t>(), 20);
    earlier.plan = model.plan;
    earlier.examples = model.examples;
    earlier.merged = model.merged;
    std::reverse(earlier.examples.begin(), earlier.examples.end());
    test::Fill(earlier, *writer);  // given up; the next Begin forgets it
    test::Fill(model, *writer);
    const auto batch = writer->Seal();
    if (!batch.ok()) RC_FAIL(batch.status().ToString());
    RC_ASSERT(BytesOf(**batch) == BytesOf(*expected));
    if (!model.examples.empty()) RC_ASSERT(used.stats().reuses == 1u);
  });
}

ModelBatch SmallBatch() {
  ModelBatch batch = test::RandomBatch(1, 0);
  batch.plan = {};
  batch.plan.expand = {30, Symmetrization::kBidirectional, true};
  batch.dropped.clear();
  batch.lost_pieces.clear();
  test::ModelExample example;
  example.id = 7;
  example.graphs = {{{1, 2}, {{0, 1, 3}}}};
  batch.examples = {example};
  return batch;
}

/// The error of sealing a small batch after `append` was called in addition.
template <class F>
Status SealAfter(const ModelBatch& batch, F&& append) {
  BufferPool pool;
  auto writer = BatchWriter::Create(test::Tensors(batch.plan), batch.plan.expand, pool);
  REQUIRE(writer.ok());
  test::Fill(batch, *writer);
  append(*writer);
  return writer->Seal().status();
}

std::size_t NumberOf(const ModelBatch& batch, std::string_view path) {
  return FindTensor(test::Tensors(batch.plan), path).value();
}

TEST_CASE("a batch of 0 graphs is a batch", "[batch]") {
  ModelBatch model = SmallBatch();
  model.examples.clear();
  BufferPool pool;
  const auto batch = test::Pack(model, pool);
  const auto parsed = PackedBatch::Parse(batch->bytes(), batch);
  REQUIRE(parsed.ok());
  CHECK((*parsed)->examples() == 0);
  CHECK(Values(**parsed, "node_splits") == std::vector<std::int64_t>{0});
}

TEST_CASE("a merged batch of 0 examples is one graph without nodes", "[batch]") {
  ModelBatch model = SmallBatch();
  model.examples.clear();
  model.dropped = {{ExampleId(3), DropReason::kExcluded}};
  model = test::Merged(std::move(model));
  BufferPool pool;
  const auto batch = test::Pack(model, pool);
  const auto parsed = PackedBatch::Parse(batch->bytes(), batch);
  INFO(parsed.status().message());
  REQUIRE(parsed.ok());
  CHECK((*parsed)->examples() == 0);
  CHECK((*parsed)->info().graphs() == 1);
  using Splits = std::vector<std::int64_t>;
  CHECK(Values(**parsed, "node_splits") == Splits{0, 0});
  CHECK(Values(**parsed, "edge_splits") == Splits{0, 0});
  CHECK(Values(**parsed, "text_splits") == Splits{0});
  const std::size_t size = *(*parsed)->Find("graph_size");
  CHECK((*parsed)->tensors()[size].rows == 1);
  CHECK((*parsed)->tensors()[*(*parsed)->Find("root")].rows == 0);
}

TEST_CASE("the graph of a merged batch ends once", "[batch]") {
  const ModelBatch model = test::Merged(SmallBatch());
  CHECK(SealAfter(model, [](BatchWriter&) {}).ok());
  CHECK(SealAfter(model, [](BatchWriter& w) { w.EndGraph(); }).message() ==
        "tensor node_splits: has 3 rows, expected 2");
  BufferPool pool;
  auto writer = BatchWriter::Create(test::Tensors(model.plan), model.plan.expand, pool);
  writer->Begin({}, 0, 0, 0);
  CHECK(writer->Seal().status().message() == "tensor node_splits: has 1 rows, expected 2");
  writer->Begin({}, 0, 0, 0);
  writer->EndGraph();
  CHECK(writer->Seal().status().message() == "tensor graph_size: has 0 rows, expected 1");
  CHECK(SealAfter(model, [&](BatchWriter& w) {
          w.Append(NumberOf(model, "node_label"), std::vector<std::uint32_t>{5});
        }).message() == "tensor node_label: has 3 rows, but the last example ended at 2");
}

TEST_CASE("lost pieces are added up by reason, also those of another writer", "[batch]") {
  const ModelBatch model = SmallBatch();
  BufferPool pool;
  const auto make = [&] {
    return BatchWriter::Create(test::Tensors(model.plan), model.plan.expand, pool).value();
  };
  BatchWriter writer = make();
  writer.Begin({}, 0, 0, 1);
  writer.AddLostPieces(DropReason::kTooLarge, 9);  // forgotten by the next Begin
  writer.Begin({}, 0, 0, 0);
  writer.AddLostPieces(DropReason::kExcluded, 2);
  writer.AddLostPieces(DropReason::kTooLarge, 1);
  writer.AddLostPieces(DropReason{17}, 0);
  writer.AddLostPieces(DropReason::kExcluded, 3);
  CHECK(writer.info().lost_pieces ==
        std::vector<LostPieces>{{DropReason::kTooLarge, 1}, {DropReason::kExcluded, 5}});
  BatchWriter other = make();
  other.Begin({}, 0, 0, 0);
  other.AddLostPieces(DropReason::kExcluded, 10);
  other.AddLostPieces(DropReason{3}, 4);
  writer.AppendAll(other);
  CHECK(writer.info().lost_pieces == std::vector<LostPieces>{{DropReason::kTooLarge, 1},
                                                             {DropReason{3}, 4},
                                                             {DropReason::kExcluded, 15}});
}

TEST_CASE("ids beyond 32 bits are kept", "[batch]") {
  ModelBatch model = SmallBatch();
  model.plan.max_id = std::uint64_t{1} << 45;
  model.examples[0].id = (std::uint64_t{1} << 45) - 3;
  BufferPool pool;
  const auto batch = test::Pack(model, pool);
  CHECK(batch->tensors()[*batch->Find("example_id")].spec.dtype == DType::kUint64);
  CHECK(Values(*batch, "example_id")[0] == (std::int64_t{1} << 45) - 3);
  CHECK(batch->info().example_ids[0].value() == model.examples[0].id);
}

TEST_CASE("a value out of bounds is named when the batch is sealed", "[batch]") {
  const ModelBatch batch = SmallBatch();
  const std::vector<std::uint32_t> large = {5, 40'000, 40'001, 99'999};
  const Status status =
      SealAfter(batch, [&](BatchWriter& w) { w.Append(NumberOf(batch, "node_label"), large); });
  CHECK(status.code() == StatusCode::kInternal);
  CHECK(status.message() == "tensor node_label: value 40001 is outside its bounds 0 to 40000");

  CHECK(SealAfter(batch, [&](BatchWriter& w) {
          for (const int value : {-1, -2, -3}) w.AppendOne(NumberOf(batch, "local_args"), value);
        }).message() == "tensor local_args: value -2 is outside its bounds -1 to 100");
}

TEST_CASE("values after the last example are an error", "[batch]") {
  const ModelBatch batch = SmallBatch();
  const std::vector<std::uint32_t> more = {5};
  const Status status =
      SealAfter(batch, [&](BatchWriter& w) { w.Append(NumberOf(batch, "node_label"), more); });
  CHECK(status.code() == StatusCode::kInternal);
  CHECK(status.message() == "tensor node_label: has 3 rows, but the last example ended at 2");
}

TEST_CASE("a tensor with too many rows is an error", "[batch]") {
  const ModelBatch batch = SmallBatch();
  const Status status =
      SealAfter(batch, [&](BatchWriter& w) { w.AppendOne(NumberOf(batch, "proof_step"), 1); });
  CHECK(status.code() == StatusCode::kInternal);
  CHECK(status.message() == "tensor proof_step: has 2 rows, expected 1");
}

TEST_CASE("a batch has to hold or name all its planned examples", "[batch]") {
  const Status status = SealAfter(
      SmallBatch(), [](BatchWriter& w) { w.AddDropped(ExampleId(9), DropReason::kTooLarge); });
  CHECK(status.code() == StatusCode::kInternal);
  CHECK(status.message() == "batch of 1 planned examples was sealed with 1 examples and 1 dropped");
}

TEST_CASE("rows beyond what a splits tensor can count are an error", "[batch]") {
  ModelBatch batch = SmallBatch();
  batch.plan.max_rows = 255;
  batch.examples[0].text = std::string(256, 'x');
  CHECK(SealAfter(batch, [](BatchWriter&) {}).message() ==
        "tensor text_splits: value 256 is outside its bounds 0 to 255");
}

/// Rows of three float32, without nodes or splits.
std::vector<TensorSpec> Features() {
  std::vector<TensorSpec> tensors(2);
  tensors[0].path = "features";
  tensors[0].dimension = "batch";
  tensors[0].dtype = DType::kFloat32;
  tensors[0].expansion = Expansion::kKeep;
  tensors[0].inner = {3};
  tensors[1].path = "good";
  tensors[1].dimension = "batch";
  tensors[1].dtype = DType::kBool;
  tensors[1].expansion = Expansion::kKeep;
  return tensors;
}

TEST_CASE("rows of several values are written in place", "[batch]") {
  BufferPool pool;
  auto writer = BatchWriter::Create(Features(), {}, pool);
  REQUIRE(writer.ok());
  writer->Begin({}, 0, 0, 2);
  const std::array<float, 3> first = {1.5F, -0.0F, std::numeric_limits<float>::quiet_NaN()};
  const std::array<float, 3> second = {4, 5, 6};
  const std::span<std::byte> room = writer->AppendRows(0, 1);
  REQUIRE(room.size() == sizeof first);
  std::memcpy(room.data(), first.data(), room.size());
  writer->AppendOne(1, 1);
  writer->EndExample(ExampleId(7));
  writer->AppendBytes(0, std::as_bytes(std::span(second)));
  writer->AppendOne(1, 0);
  writer->EndExample(ExampleId(8));
  const auto batch = writer->Seal();
  REQUIRE(batch.ok());
  CHECK((*batch)->tensors()[0].rows == 2);
  const auto bytes = (*batch)->tensor_bytes(0);
  REQUIRE(bytes.size() == 24);
  CHECK(std::memcmp(bytes.data(), first.data(), 12) == 0);
  CHECK(std::memcmp(bytes.data() + 12, second.data(), 12) == 0);
  CHECK((*batch)->tensor_bytes(1)[0] == std::byte{1});
}

/// Rows of the first tensor that repeat the value of the second one.
class Repeated final : public LateRows {
 public:
  std::span<const std::size_t> tensors() const override { return tensors_; }
  Status Write(std::size_t tensor, const BatchWriter& writer, std::span<std::byte> out,
               const Filled& filled) const override {
    if (!right) return DataLoss("the rows are gone");
    REQUIRE(tensor == 0);
    const std::span<const std::byte> values = writer.values(1);
    REQUIRE(out.size() == 12 * values.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto value = static_cast<float>(values[i]);
      const std::array<float, 3> row = {value, value, value};
      std::memcpy(out.data() + 12 * i, row.data(), sizeof row);
      if (i % 2 == 1) filled(12 * (i + 1));
    }
    return OkStatus();
  }

  bool right = true;

 private:
  std::vector<std::size_t> tensors_ = {0};
};

TEST_CASE("late rows are written when the batch is sealed, as if they had been appended",
          "[batch]") {
  BufferPool pool;
  auto in_time = BatchWriter::Create(Features(), {}, pool);
  auto writer = BatchWriter::Create(Features(), {}, pool);
  REQUIRE((in_time.ok() && writer.ok()));
  Repeated repeated;
  writer->AllowLate(0, repeated);
  CHECK(writer->may_be_late(0));
  CHECK_FALSE(writer->may_be_late(1));
  for (const std::uint32_t examples : {3u, 0u, 5u}) {
    in_time->Begin({}, 0, 0, examples);
    writer->Begin({}, 0, 0, examples);
    for (std::uint32_t i = 0; i < examples; ++i) {
      const auto value = static_cast<float>(i % 2);
      const std::array<float, 3> row = {value, value, value};
      in_time->AppendBytes(0, std::as_bytes(std::span(row)));
      writer->AppendLate(0, 1);
      for (BatchWriter* const each : {&*in_time, &*writer}) {
        each->AppendOne(1, i % 2);
        each->EndExample(ExampleId(i));
      }
    }
    CHECK(writer->rows(0) == examples);
    CHECK(writer->bytes(0) == in_time->bytes(0));
    CHECK(writer->pending_bytes() == in_time->pending_bytes());
    const auto expected = in_time->Seal();
    const auto batch = writer->Seal();
    REQUIRE((expected.ok() && batch.ok()));
    CHECK(BytesOf(**batch) == BytesOf(**expected));
  }
  // As many late rows are asked for as others, and what Write reports ends the batch.
  writer->Begin({}, 0, 0, 1);
  writer->AppendOne(1, 0);
  writer->EndExample(ExampleId(0));
  CHECK(writer->Seal().status().message() == "tensor features: has 0 rows, expected 1");
  writer->Begin({}, 0, 0, 1);
  writer->AppendLate(0, 1);
  writer->AppendOne(1, 0);
  writer->EndExample(ExampleId(0));
  repeated.right = false;
  const Status lost = writer->Seal().status();
  CHECK(lost.code() == StatusCode::kDataLoss);
  CHECK(lost.message() == "the rows are gone");
}

TEST_CASE("a tensor that ends within a row is an error", "[batch]") {
  BufferPool pool;
  auto writer = BatchWriter::Create(Features(), {}, pool);
  REQUIRE(writer.ok());
  writer->Begin({}, 0, 0, 1);
  const std::array<float, 4> values = {1, 2, 3, 4};
  writer->AppendBytes(0, std::as_bytes(std::span(values)));
  writer->AppendOne(1, 1);
  writer->EndExample(ExampleId(7));
  CHECK(writer->Seal().status().message() == "tensor features: ends with 4 bytes of a row of 12");
}

TEST_CASE("a bool that is neither 0 nor 1 is out of bounds", "[batch]") {
  BufferPool pool;
  auto writer = BatchWriter::Create(Features(), {}, pool);
  REQUIRE(writer.ok());
  writer->Begin({}, 0, 0, 1);
  writer->AppendRows(0, 1);
  writer->AppendOne(1, 2);
  writer->EndExample(ExampleId(7));
  CHECK(writer->Seal().status().message() == "tensor good: value 2 is outside its bounds 0 to 1");
}

}  // namespace
}  // namespace millrace
