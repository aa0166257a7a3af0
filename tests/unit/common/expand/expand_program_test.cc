#include <rapidcheck.h>
#include <catch2/catch.hpp>

#include <rapidcheck/catch.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "common/expand/expand_kernel.h"
#include "common/expand/expand_program.h"
#include "tests/unit/common/batch/model_batch.h"
#include "tests/unit/common/expand/compare_batches.h"

namespace millrace {
namespace {

using test::ModelBatch;
using test::SameBytes;

/// Runs a program over memory of the host, and checks that the bytes around the output stay as they
/// are.
class Run {
 public:
  Run(const PackedBatch& packed, const ExpandLayout& layout)
      : program_(MakeExpandProgram(packed, layout)), bytes_(layout.bytes) {
    out_ = *pool_.Acquire(layout.bytes + 2 * kGuard);
    std::memset(out_->data(), 0xa5, out_->size());
    kernel::Launch& launch = program_.launch;
    launch.payload = reinterpret_cast<const unsigned char*>(packed.payload().data());
    launch.out = reinterpret_cast<unsigned char*>(out_->data()) + kGuard;
    launch.tasks = program_.tasks.data();
    launch.error = &error_;
  }

  const kernel::Launch& launch() const { return program_.launch; }
  bool error() const { return error_ != 0; }
  std::span<const std::byte> out() const { return out_->bytes().subspan(kGuard, bytes_); }
  bool wrote_outside() const {
    const auto untouched = [](std::byte b) { return b == std::byte{0xa5}; };
    const auto all = out_->bytes();
    return !std::all_of(all.begin(), all.begin() + kGuard, untouched) ||
           !std::all_of(all.end() - kGuard, all.end(), untouched);
  }

 private:
  static constexpr std::ptrdiff_t kGuard = 1024;

  BufferPool pool_{0};
  ExpandProgram program_;
  std::size_t bytes_;
  std::shared_ptr<Buffer> out_;
  std::uint32_t error_ = 0;
};

TEST_CASE("the kernel writes the same bytes as the host's expansion", "[expand][kernel]") {
  rc::prop("all symmetrizations, dtypes, branches, micro-batches", [] {
    const auto seed = *rc::gen::arbitrary<std::uint64_t>();
    ModelBatch model = test::RandomBatch(seed, *rc::gen::inRange(0, 40));
    const bool merged = *rc::gen::arbitrary<bool>();
    if (merged) model = test::Merged(std::move(model));
    const DType index_dtype = *rc::gen::element(DType::kInt32, DType::kInt64);
    BufferPool pool;
    const auto packed = test::Pack(model, pool);
    const auto micro = merged ? 1 : *rc::gen::inRange<std::size_t>(1, 4);
    for (std::size_t index = 0; index < micro; ++index) {
      const RowRange rows = RowsOfMicroBatch(packed->examples(), index, micro);
      const auto expected = Expand(*packed, index_dtype, pool, rows);
      RC_ASSERT(expected.ok());
      const auto layout = LayOutExpanded(*packed, index_dtype, rows);
      Run run(*packed, *layout);
      RunOnHost(run.launch());
      RC_ASSERT_FALSE(run.error());
      RC_ASSERT_FALSE(run.wrote_outside());
      RC_ASSERT(SameBytes(run.out(), (*expected)->bytes()));
    }
  });
}

/// Examples so large that edges and nodes fill several tiles, with tiny examples between them.
ModelBatch LargeBatch(Symmetrization symmetrization, bool self_edges) {
  std::mt19937 random(7);
  ModelBatch batch;
  batch.plan.expand = {5, symmetrization, self_edges};
  batch.plan.max_nodes = 70'000;
  for (const std::uint32_t nodes : {1u, 3000u, 1u, 1u, 9000u, 2048u, 1u}) {
    test::ModelExample example;
    example.id = batch.examples.size();
    test::ModelGraph graph;
    graph.node_labels.assign(nodes, 7);
    for (std::uint32_t i = 0; nodes > 1 && i < nodes + nodes / 2; ++i) {
      const auto node = [&] { return static_cast<std::uint32_t>(random() % nodes); };
      graph.edges.push_back({node(), node(), static_cast<std::uint32_t>(random() % 5)});
    }
    std::stable_sort(graph.edges.begin(), graph.edges.end(),
                     [](const auto& a, const auto& b) { return a.label < b.label; });
    example.graphs = {graph};
    batch.examples.push_back(example);
  }
  return batch;
}

TEST_CASE("tiles may be done in any order, by any number of threads", "[expand][kernel]") {
  const auto symmetrization = GENERATE(Symmetrization::kDirected, Symmetrization::kUndirected,
                                       Symmetrization::kBidirectional);
  const bool self_edges = GENERATE(false, true);
  ModelBatch model = LargeBatch(symmetrization, self_edges);
  if (GENERATE(false, true)) model = test::Merged(std::move(model));
  BufferPool pool;
  const auto packed = test::Pack(model, pool);
  const auto expected = Expand(*packed, DType::kInt32, pool);
  REQUIRE(expected.ok());
  const auto layout = LayOutExpanded(*packed, DType::kInt32);
  Run run(*packed, *layout);
  REQUIRE(run.launch().tiles > 30);
  constexpr std::uint32_t kThreads = 7;
  for (std::uint64_t tile = run.launch().tiles; tile-- > 0;) {
    for (std::uint32_t thread = kThreads; thread-- > 0;) {
      kernel::RunTile(run.launch(), tile, thread, kThreads);
    }
  }
  CHECK_FALSE(run.error());
  CHECK_FALSE(run.wrote_outside());
  CHECK(SameBytes(run.out(), (*expected)->bytes()));
}

TEST_CASE("where the host's expansion fails the kernel sets the error word and writes nothing else",
          "[expand][kernel]") {
  rc::prop("one damaged value", [] {
    const auto seed = *rc::gen::arbitrary<std::uint64_t>();
    ModelBatch model = test::RandomBatch(seed, *rc::gen::inRange(1, 24));
    if (*rc::gen::arbitrary<bool>()) model = test::Merged(std::move(model));
    BufferPool pool;
    const auto packed = test::Pack(model, pool);
    const auto copy = test::CopyOf(packed->bytes(), pool);
    const auto tensor = *rc::gen::inRange<std::size_t>(0, packed->tensors().size());
    const TensorPlace& place = packed->tensors()[tensor];
    RC_PRE(place.bytes > 0 && place.spec.kind != TensorKind::kSplits);
    const auto value = *rc::gen::arbitrary<std::uint8_t>();
    const auto at = *rc::gen::inRange<std::size_t>(0, place.bytes);
    copy->data()[packed->header().size() + place.offset + at] = std::byte{value};
    const auto damaged = PackedBatch::Parse(copy, copy->size());
    RC_ASSERT(damaged.ok());
    const DType index_dtype = *rc::gen::element(DType::kInt32, DType::kInt64);
    const auto expected = Expand(**damaged, index_dtype, pool);
    const auto layout = LayOutExpanded(**damaged, index_dtype);
    Run run(**damaged, *layout);
    RunOnHost(run.launch());
    RC_TAG(expected.ok() ? "still good" : "damaged");
    RC_ASSERT(run.error() == !expected.ok());
    RC_ASSERT_FALSE(run.wrote_outside());
    if (expected.ok()) {
      RC_ASSERT(SameBytes(run.out(), (*expected)->bytes()));
    } else {
      RC_ASSERT(WhatIsWrong(**damaged, *layout) == expected.status());
    }
  });
}

TEST_CASE("values of each node that are numbers of nodes are those of a merged batch's graph",
          "[expand][kernel]") {
  ModelBatch model = LargeBatch(Symmetrization::kDirected, false);
  model.examples.resize(4);
  TensorSpec& spec = model.plan.declared.emplace_back();
  spec.path = "next";
  spec.kind = TensorKind::kRaggedValues;
  spec.dimension = "nodes";
  spec.splits = spec.node_splits = "node_splits";
  spec.dtype = DType::kUint8;
  spec.max = 255;
  spec.expansion = Expansion::kNodeOffset;
  std::string values;
  for (test::ModelExample& example : model.examples) {
    std::string& rows = example.declared.emplace_back();
    for (std::size_t i = 0; i < example.graphs[0].node_labels.size(); ++i) {
      rows.push_back(static_cast<char>(values.size() % 251));
      values.push_back(rows.back());
    }
  }
  BufferPool pool;
  const auto packed = test::Pack(test::Merged(std::move(model)), pool);
  const auto expected = Expand(*packed, DType::kInt32, pool);
  REQUIRE(expected.ok());
  const DeliveredTensor& next = *(*expected)->Find("next");
  REQUIRE(next.shape == std::vector<std::uint64_t>{values.size()});
  for (std::size_t i = 0; i < values.size(); ++i) {
    REQUIRE(next.ValueAt(i) == static_cast<std::uint8_t>(values[i]));
  }
  const auto layout = LayOutExpanded(*packed, DType::kInt32);
  Run run(*packed, *layout);
  RunOnHost(run.launch());
  CHECK_FALSE(run.error());
  CHECK_FALSE(run.wrote_outside());
  CHECK(SameBytes(run.out(), (*expected)->bytes()));
}

TEST_CASE("a fault that the host cannot see is told from a damaged batch", "[expand][kernel]") {
  BufferPool pool;
  const auto packed = test::Pack(LargeBatch(Symmetrization::kDirected, false), pool);
  CHECK(WhatIsWrong(*packed, *LayOutExpanded(*packed, DType::kInt32)).code() ==
        StatusCode::kInternal);
}

}  // namespace
}  // namespace millrace
