#include <rapidcheck.h>
#include <catch2/catch.hpp>

#include <rapidcheck/catch.h>

#include <algorithm>
#include <cstring>

#include "common/batch/batch_writer.h"
#include "tests/unit/common/batch/model_batch.h"

namespace millrace {
namespace {

using test::ModelBatch;
using test::Values;

ModelBatch AnyBatch() {
  const auto seed = *rc::gen::arbitrary<std::uint64_t>();
  return test::RandomBatch(seed, *rc::gen::inRange(0, 20));
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
    RC_ASSERT(batch.graphs() == model.examples.size());
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
      RC_ASSERT(
          Values(batch, model.plan.branches[b] + "node_label") ==
          Gathered(model, [&](const test::ModelExample& e) { return e.graphs[b].node_labels; }));
      RC_ASSERT(Values(batch, model.plan.branches[b] + "edge_target") ==
                Gathered(model, [&](const test::ModelExample& e) {
                  std::vector<std::uint32_t> targets;
                  for (const auto& edge : e.graphs[b].edges) targets.push_back(edge.target);
                  return targets;
                }));
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
  CHECK((*parsed)->graphs() == 0);
  CHECK(Values(**parsed, "node_splits") == std::vector<std::int64_t>{0});
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

  const std::vector<std::int32_t> small = {-1, -2};
  CHECK(SealAfter(batch, [&](BatchWriter& w) {
          w.AppendSigned(NumberOf(batch, "local_args"), small);
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
  CHECK(status.message() == "batch of 1 planned examples was sealed with 1 graphs and 1 dropped");
}

TEST_CASE("rows beyond what a splits tensor can count are an error", "[batch]") {
  ModelBatch batch = SmallBatch();
  batch.plan.max_rows = 255;
  batch.examples[0].text = std::string(256, 'x');
  CHECK(SealAfter(batch, [](BatchWriter&) {}).message() ==
        "tensor text_splits: value 256 is outside its bounds 0 to 255");
}

TEST_CASE("a writer fills tensors of one dimension only", "[batch]") {
  BufferPool pool;
  std::vector<TensorSpec> tensors(1);
  tensors[0].path = "features";
  tensors[0].dimensions = {"batch", "features"};
  tensors[0].max = 255;
  const auto writer = BatchWriter::Create(tensors, {}, pool);
  REQUIRE_FALSE(writer.ok());
  CHECK(writer.status().code() == StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace millrace
