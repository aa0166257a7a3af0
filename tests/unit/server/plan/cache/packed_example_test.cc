#include "server/plan/cache/packed_example.h"

#include <catch2/catch.hpp>

#include <random>
#include <vector>

#include "tests/unit/common/batch/model_batch.h"

namespace millrace::test {
namespace {

/// A writer that holds a batch, and another one for its examples.
struct Packed {
  explicit Packed(std::uint64_t seed, int size = 12) : model(RandomBatch(seed, size)) {
    Fill(model, writer);
  }
  BatchWriter NewWriter() { return *BatchWriter::Create(tensors, model.plan.expand, pool); }
  void BeginSame(BatchWriter& other) const {
    other.Begin(model.fingerprint, model.epoch, model.first_example,
                static_cast<std::uint32_t>(model.examples.size() + model.dropped.size()));
  }

  ModelBatch model;
  BufferPool pool;
  std::vector<TensorSpec> tensors = Tensors(model.plan);
  BatchWriter writer = NewWriter();
  ExamplePacker packer{tensors};
};

TEST_CASE("random examples come back from their bytes", "[cached]") {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    INFO("seed " << seed);
    Packed p(seed);
    BatchWriter other = p.NewWriter();
    p.BeginSame(other);
    for (std::size_t row = 0; row < p.model.examples.size(); ++row) {
      const ExamplePtr example = p.packer.Pack(p.writer, row);
      REQUIRE(p.packer.Unpack(example->bytes(), ExampleId(p.model.examples[row].id), other));
    }
    for (const DroppedExample& dropped : p.model.dropped) {
      const ExamplePtr example = ExamplePacker::PackDropped(dropped.reason);
      REQUIRE(p.packer.Unpack(example->bytes(), dropped.id, other));
    }
    // These belong to rows of packed documents; a cache keeps documents.
    for (const LostPieces& lost : p.writer.info().lost_pieces) {
      other.AddLostPieces(lost.reason, lost.pieces);
    }
    const auto expected = p.writer.Seal();
    const auto got = other.Seal();
    REQUIRE(expected.ok());
    REQUIRE(got.ok());
    CHECK(std::equal((*got)->bytes().begin(), (*got)->bytes().end(), (*expected)->bytes().begin(),
                     (*expected)->bytes().end()));
  }
}

TEST_CASE("an example can get another id", "[cached]") {
  Packed p(3);
  REQUIRE(p.model.examples.size() > 1);
  const ExamplePtr example = p.packer.Pack(p.writer, 1);
  BatchWriter other = p.NewWriter();
  other.Begin({}, 0, 0, 1);
  REQUIRE(p.packer.Unpack(example->bytes(), ExampleId(77), other));
  const auto batch = other.Seal();
  REQUIRE(batch.ok());
  CHECK((*batch)->info().example_ids == std::vector{ExampleId(77)});
  CHECK((*batch)->ValueAt(*(*batch)->Find("example_id"), 0) == 77);
}

TEST_CASE("bytes that are no example leave the writer as it is", "[cached]") {
  std::mt19937_64 random(1);
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    Packed p(seed);
    if (p.model.examples.empty()) continue;
    const ExamplePtr example = p.packer.Pack(p.writer, 0);
    const std::vector<std::byte> good(example->bytes().begin(), example->bytes().end());
    BatchWriter other = p.NewWriter();
    other.Begin({}, 0, 0, 1);
    const auto refused = [&](std::span<const std::byte> bytes) {
      const std::uint64_t before = other.pending_bytes();
      const bool taken = p.packer.Unpack(bytes, ExampleId(0), other);
      if (!taken) CHECK(other.pending_bytes() == before);
      return !taken;
    };
    for (std::size_t size = 0; size < good.size(); ++size) {
      REQUIRE(refused(std::span(good).first(size)));
    }
    std::vector<std::byte> longer = good;
    longer.push_back(std::byte{0});
    CHECK(refused(longer));
    // Wrong counts and reasons, also those for which sizes would overflow.
    for (int round = 0; round < 200; ++round) {
      std::vector<std::byte> bad = good;
      bad[random() % std::min<std::size_t>(bad.size(), 24)] = static_cast<std::byte>(random());
      static_cast<void>(refused(bad));
      other.Begin({}, 0, 0, 1);
    }
  }
}

TEST_CASE("other types of tensors have another digest, other ids have the same", "[cached]") {
  const Packed p(3);
  std::vector<TensorSpec> other = p.tensors;
  for (TensorSpec& tensor : other) {
    if (tensor.path == "example_id") tensor.dtype = DType::kUint32;
  }
  CHECK(ExamplePacker(other).digest() == p.packer.digest());
  for (TensorSpec& tensor : other) {
    if (tensor.path == "node_label") tensor.dtype = DType::kUint64;
  }
  CHECK(ExamplePacker(other).digest() != p.packer.digest());
  other = p.tensors;
  other.pop_back();
  CHECK(ExamplePacker(other).digest() != p.packer.digest());
}

}  // namespace
}  // namespace millrace::test
