#include "common/expand/graph_padding.h"

#include <rapidcheck.h>
#include <catch2/catch.hpp>

#include <rapidcheck/catch.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "common/batch/layout/integer_visit.h"
#include "common/expand/expand_program.h"
#include "tests/unit/common/expand/padded_model.h"

namespace millrace {
namespace {

using test::CountsOf;
using test::DeliveryOfGraphs;
using test::ModelBatch;
using test::Values;
using Numbers = std::vector<std::int64_t>;

std::vector<std::byte> TensorBytes(const DeliveredTensor& tensor) {
  return {tensor.data, tensor.data + tensor.bytes};
}

/// The bytes of `count` numbers of a dtype that are all `value`.
std::vector<std::byte> Repeated(DType dtype, std::uint64_t count, std::int64_t value) {
  std::vector<std::byte> bytes(count * DTypeSize(dtype));
  const auto fill = [&](auto one) {
    for (std::uint64_t i = 0; i < count; ++i) {
      std::memcpy(bytes.data() + i * sizeof one, &one, sizeof one);
    }
  };
  if (dtype == DType::kInt32) fill(static_cast<std::int32_t>(value));
  if (dtype == DType::kInt64) fill(value);
  if (dtype == DType::kFloat32) fill(static_cast<float>(value));
  return bytes;
}

/// The bytes after the rows of `own`, as docs/reference/tensors.md says.
std::vector<std::byte> PaddingByThePage(const DeliveredTensor& own, const GraphCounts& counts,
                                        const GraphPad& pad) {
  const std::uint64_t row = std::accumulate(own.shape.begin() + 1, own.shape.end(),
                                            std::uint64_t{1}, std::multiplies<>());
  const std::uint64_t graphs = pad.graphs - counts.graphs;
  if (own.kind == TensorKind::kSplits) {
    const std::int64_t last = own.ValueAt(own.shape[0] - 1);
    std::vector<std::byte> bytes = Repeated(own.dtype, graphs, last);
    const bool counts_rows = own.path == "node_splits" || own.path == "edge_splits";
    if (!counts_rows) return bytes;
    const auto end = Repeated(own.dtype, 1, own.path == "node_splits" ? pad.nodes : pad.edges);
    std::copy(end.begin(), end.end(), bytes.end() - static_cast<std::ptrdiff_t>(end.size()));
    return bytes;
  }
  std::uint64_t rows = 0;
  if (own.splits.empty()) rows = graphs;
  if (own.splits == "node_splits") rows = pad.nodes - counts.nodes;
  if (own.splits == "edge_splits") rows = pad.edges - counts.edges;
  if (!own.node_splits.empty()) {
    return Repeated(own.dtype, rows, static_cast<std::int64_t>(counts.nodes));
  }
  if (own.path.starts_with("padded_") && !own.path.ends_with(".length"))
    return Repeated(own.dtype, rows * row, 7);
  return std::vector<std::byte>(rows * row * DTypeSize(own.dtype));
}

void CheckMask(const DeliveredBatch& batch, const std::string& name, std::uint64_t ones,
               std::uint64_t rows) {
  const DeliveredTensor& mask = *batch.Find(name);
  RC_ASSERT(mask.dtype == DType::kBool);
  RC_ASSERT(mask.shape == std::vector<std::uint64_t>{rows});
  const auto values = mask.values<std::uint8_t>();
  for (std::uint64_t i = 0; i < rows; ++i) RC_ASSERT(values[i] == (i < ones ? 1 : 0));
}

void CheckPadded(const DeliveredBatch& padded, const DeliveredBatch& plain,
                 const GraphCounts& counts, const GraphPad& pad) {
  std::vector<std::byte> rest(padded.bytes().begin(), padded.bytes().end());
  for (const DeliveredTensor& tensor : padded.tensors()) {
    std::memset(rest.data() + (tensor.data - padded.bytes().data()), 0, tensor.bytes);
    const DeliveredTensor* const own = plain.Find(tensor.path);
    if (GraphPad::IsMask(tensor.path)) continue;
    RC_ASSERT(own != nullptr);
    std::vector<std::byte> expected = TensorBytes(*own);
    const std::vector<std::byte> padding = PaddingByThePage(*own, counts, pad);
    expected.insert(expected.end(), padding.begin(), padding.end());
    RC_LOG() << tensor.path;
    RC_ASSERT(TensorBytes(tensor) == expected);
    RC_ASSERT(tensor.dtype == own->dtype);
    RC_ASSERT(std::equal(tensor.shape.begin() + 1, tensor.shape.end(), own->shape.begin() + 1,
                         own->shape.end()));
  }
  RC_ASSERT(std::all_of(rest.begin(), rest.end(), [](std::byte b) { return b == std::byte{0}; }));
  RC_ASSERT(padded.tensors().size() == plain.tensors().size() + 3);
  RC_ASSERT(padded.info() == plain.info());
  CheckMask(padded, "node_mask", counts.nodes, pad.nodes);
  CheckMask(padded, "edge_mask", counts.edges, pad.edges);
  CheckMask(padded, "graph_mask", counts.graphs, pad.graphs);
}

/// Room for some rows, and for some more.
GraphPad RoomFor(const GraphCounts& counts) {
  return {static_cast<std::uint32_t>(counts.nodes) + *rc::gen::inRange(1u, 200u),
          static_cast<std::uint32_t>(counts.edges) + *rc::gen::inRange(0u, 200u),
          static_cast<std::uint32_t>(counts.graphs) + *rc::gen::inRange(1u, 20u)};
}

TEST_CASE("a padded batch is the batch, and after it what the page says", "[graph_padding]") {
  rc::prop("any batch, any room, any micro-batch, computed tensors too", [] {
    const auto seed = *rc::gen::arbitrary<std::uint64_t>();
    const ModelBatch model = test::RandomGraphs(seed, *rc::gen::inRange(0, 16));
    const DType index_dtype = *rc::gen::element(DType::kInt32, DType::kInt64);
    const bool computes = *rc::gen::arbitrary<bool>();
    BufferPool pool;
    {
      auto dirty = pool.Acquire(1 << 16);
      std::memset((*dirty)->data(), 0xff, (*dirty)->capacity());
    }
    const auto packed = test::Pack(model, pool);
    const auto micro = *rc::gen::inRange<std::size_t>(1, 5);
    for (std::size_t index = 0; index < micro; ++index) {
      const RowRange rows = RowsOfMicroBatch(packed->examples(), index, micro);
      const GraphCounts counts = CountsOf(model, rows);
      const GraphPad pad = RoomFor(counts);
      const auto plain = Expand(
          *packed, DeliveryOfGraphs(model.plan, computes, index_dtype, std::nullopt), pool, rows);
      const Delivery delivery = DeliveryOfGraphs(model.plan, computes, index_dtype, pad);
      const auto padded = Expand(*packed, delivery, pool, rows);
      if (!padded.ok()) RC_FAIL(padded.status().ToString());
      CheckPadded(**padded, **plain, counts, pad);
      const std::vector<DeliveryTensor> described = delivery.Tensors(test::Tensors(model.plan));
      RC_ASSERT(described.size() == (*padded)->tensors().size());
      for (std::size_t i = 0; i < described.size(); ++i) {
        const DeliveredTensor& tensor = (*padded)->tensors()[i];
        RC_ASSERT(described[i].packed.path == tensor.path);
        RC_ASSERT(described[i].packed.splits == tensor.splits);
        RC_ASSERT(described[i].packed.kind == tensor.kind);
        RC_ASSERT(described[i].rows.value_or(tensor.shape[0]) == tensor.shape[0]);
      }
    }
  });
}

TEST_CASE("a merged batch is not padded, whoever made it", "[graph_padding]") {
  BufferPool pool;
  const ModelBatch model = test::Merged(test::RandomGraphs(5, 9));
  const auto packed = test::Pack(model, pool);
  const Delivery delivery =
      DeliveryOfGraphs(model.plan, true, DType::kInt32, GraphPad{100'000, 100'000, 100});
  const Status status = Expand(*packed, delivery, pool).status();
  CHECK(status.code() == StatusCode::kDataLoss);
  CHECK(status.message() == "pad.graph: the batch is one graph, which is not padded");
}

TEST_CASE("the kernel pads with the same bytes as the host", "[graph_padding][kernel]") {
  rc::prop("any batch, any room, any micro-batch", [] {
    const auto seed = *rc::gen::arbitrary<std::uint64_t>();
    const ModelBatch model = test::RandomGraphs(seed, *rc::gen::inRange(0, 24));
    BufferPool pool;
    const auto packed = test::Pack(model, pool);
    const auto micro = *rc::gen::inRange<std::size_t>(1, 4);
    const RowRange rows = RowsOfMicroBatch(packed->examples(), micro - 1, micro);
    GraphPad pad = RoomFor(CountsOf(model, rows));
    if (*rc::gen::arbitrary<bool>()) pad.edges += 10'000;  // several tiles
    const Delivery delivery =
        DeliveryOfGraphs(model.plan, false, *rc::gen::element(DType::kInt32, DType::kInt64), pad);
    const auto layout = LayOutExpanded(*packed, delivery, rows);
    RC_ASSERT(layout.ok());
    const auto expected = Expand(*packed, delivery, pool, rows);
    RC_ASSERT(expected.ok());
    const auto out = pool.Acquire(layout->bytes).value();
    std::memset(out->data(), 0xa5, layout->bytes);
    ExpandProgram program = MakeExpandProgram(*packed, *layout);
    std::uint32_t error = 0;
    program.launch.payload = reinterpret_cast<const unsigned char*>(packed->payload().data());
    program.launch.out = reinterpret_cast<unsigned char*>(out->data());
    program.launch.tasks = program.tasks.data();
    program.launch.error = &error;
    RunOnHost(program.launch);
    RC_ASSERT(error == 0u);
    RC_ASSERT(std::memcmp(out->data(), (*expected)->bytes().data(), layout->bytes) == 0);
  });
}

/// Two examples with 2 and 3 nodes, and 2 and 3 edges.
ModelBatch PairOfGraphs() {
  ModelBatch batch;
  batch.plan.expand = {2, Symmetrization::kBidirectional, true};
  batch.epoch = 3;
  batch.first_example = 512;
  test::ModelExample a;
  a.id = 10;
  a.graphs = {{{7, 8}, {{0, 1, 0}, {1, 1, 1}}}};
  a.text = "ab";
  test::ModelExample b;
  b.id = 11;
  b.root = 2;
  b.context = {1, 2};
  b.graphs = {{{7, 8, 9}, {{0, 1, 0}, {0, 2, 0}, {2, 0, 1}}}};
  batch.examples = {a, b};
  return batch;
}

std::shared_ptr<const DeliveredBatch> PaddedPair(const GraphPad& pad, BufferPool& pool) {
  const ModelBatch model = PairOfGraphs();
  const auto padded = Expand(*test::Pack(model, pool),
                             DeliveryOfGraphs(model.plan, false, DType::kInt32, pad), pool);
  INFO((padded.ok() ? "" : padded.status().message()));
  REQUIRE(padded.ok());
  return *padded;
}

TEST_CASE("empty graphs come before the last one, which has all nodes and edges of padding",
          "[graph_padding]") {
  BufferPool pool;
  // 5 nodes, 2 · 5 + 5 edges and 2 graphs are the batch's own.
  const auto batch = PaddedPair({8, 17, 5}, pool);
  CHECK(Values(*batch, "node_splits") == Numbers{0, 2, 5, 5, 5, 8});
  CHECK(Values(*batch, "edge_splits") == Numbers{0, 6, 15, 15, 15, 17});
  CHECK(Values(*batch, "node_label") == Numbers{7, 8, 7, 8, 9, 0, 0, 0});
  CHECK(Values(*batch, "edge_source") ==
        Numbers{0, 1, 1, 1, 0, 1, 2, 2, 4, 3, 4, 2, 2, 3, 4, 5, 5});
  CHECK(Values(*batch, "edge_target") ==
        Numbers{1, 1, 0, 1, 0, 1, 3, 4, 2, 2, 2, 4, 2, 3, 4, 5, 5});
  CHECK(Values(*batch, "edge_label")[15] == 0);
  CHECK(Values(*batch, "root") == Numbers{0, 4, 5, 5, 5});
  CHECK(Values(*batch, "example_id") == Numbers{10, 11, 0, 0, 0});
  CHECK(Values(*batch, "local_context") == Numbers{3, 4});
  CHECK(Values(*batch, "local_context_splits") == Numbers{0, 0, 2, 2, 2, 2});
  CHECK(batch->examples() == 2);
  CHECK(batch->Find("node_mask")->splits == "node_splits");
  CHECK(batch->Find("edge_mask")->dimensions == std::vector<std::string>{"edges"});
  CHECK(batch->Find("graph_mask")->kind == TensorKind::kDense);
}

TEST_CASE("without empty graphs the graph of padding follows the batch's own", "[graph_padding]") {
  BufferPool pool;
  const auto batch = PaddedPair({6, 15, 3}, pool);
  CHECK(Values(*batch, "node_splits") == Numbers{0, 2, 5, 6});
  CHECK(Values(*batch, "edge_splits") == Numbers{0, 6, 15, 15});
  CHECK(Values(*batch, "root") == Numbers{0, 4, 5});
}

TEST_CASE("masks are among the computed tensors, by their names", "[graph_padding]") {
  const ModelBatch model = PairOfGraphs();
  ConsumerProgram program;
  for (const char* const name : {"first", "f", "other"}) {
    program.text.definitions.push_back(
        {name, "cast", {"node_label"}, Params({{"dtype", std::string("float32")}})});
  }
  program.text.outputs = {{"first", "f", "other", "root"}};
  program.graph_pad = GraphPad{8, 17, 5};
  const auto delivery = Delivery::Make(test::Tensors(model.plan), program, DType::kInt32);
  REQUIRE(delivery.ok());
  std::vector<std::string> names;
  for (const DeliveryTensor& tensor : delivery->Tensors(test::Tensors(model.plan))) {
    names.push_back(tensor.packed.path);
  }
  // The edges come although nobody asked for them.
  CHECK(names == std::vector<std::string>{"edge_source", "edge_target", "edge_label", "node_splits",
                                          "edge_splits", "root", "edge_mask", "f", "first",
                                          "graph_mask", "node_mask", "other"});
}

Status PaddingRefusal(const GraphPad& pad, std::optional<RowRange> rows = std::nullopt) {
  const ModelBatch model = PairOfGraphs();
  BufferPool pool;
  return Expand(*test::Pack(model, pool), DeliveryOfGraphs(model.plan, true, DType::kInt32, pad),
                pool, rows)
      .status();
}

TEST_CASE("a batch that does not fit is an error with its size and what to do", "[graph_padding]") {
  CHECK(PaddingRefusal({6, 15, 3}).ok());
  const Status refused = PaddingRefusal({5, 15, 3});
  CHECK(refused.code() == StatusCode::kDataLoss);
  CHECK(refused.message() ==
        "pad.graph: the batch of epoch 3 from place 512 on does not fit: it has 5 nodes, 15 edges "
        "and 2 graphs, and there is room for 4 nodes, 15 edges and 2 graphs beside the padding; it "
        "needs at least {nodes: 6, edges: 15, graphs: 3}. Change pad.graph, make batches smaller, "
        "or leave large examples out with `filter`");
  CHECK_THAT(PaddingRefusal({6, 14, 3}).message(),
             Catch::Contains("and there is room for 5 nodes, 14"));
  CHECK_THAT(PaddingRefusal({6, 15, 2}).message(), Catch::Contains("15 edges and 1 graphs beside"));
  // One of its micro-batches.
  CHECK(PaddingRefusal({3, 6, 2}, RowRange{0, 1}).ok());
  CHECK_THAT(PaddingRefusal({3, 6, 2}, RowRange{1, 1}).message(),
             Catch::StartsWith("pad.graph: the batch of epoch 3 from place 512 on (rows 1 to 1 of "
                               "it) does not fit: it has 3 nodes, 9 edges and 1 graphs"));
  // A micro-batch without examples is padding alone.
  CHECK(PaddingRefusal({1, 0, 1}, RowRange{2, 0}).ok());
}

TEST_CASE("padding that would take too much memory is refused", "[graph_padding]") {
  ModelBatch model = PairOfGraphs();
  TensorSpec& wide = model.plan.declared.emplace_back();
  wide.path = "wide";
  wide.kind = TensorKind::kRaggedValues;
  wide.dimension = "nodes";
  wide.splits = "node_splits";
  wide.dtype = DType::kFloat64;
  wide.inner = {5, 5};
  wide.expansion = Expansion::kKeep;
  for (test::ModelExample& example : model.examples) {
    example.declared = {std::string(example.graphs[0].node_labels.size() * 200, '\0')};
  }
  BufferPool pool;
  const GraphPad pad{0x7fff'ffff, 20, 3};
  ConsumerProgram program;
  program.text.definitions = {
      {"big", "cast", {"wide"}, Params({{"dtype", std::string("int64")}})}};
  program.graph_pad = pad;
  for (const std::string name : {"wide", "big"}) {
    program.text.outputs = {{name}};
    const auto delivery = Delivery::Make(test::Tensors(model.plan), program, DType::kInt32);
    REQUIRE(delivery.ok());
    const Status refused = LayOutExpanded(*test::Pack(model, pool), *delivery).status();
    CHECK(refused.code() == StatusCode::kResourceExhausted);
    CHECK(refused.message() == "tensor " + name +
                                   ": 2147483647 rows of 200 bytes are larger than 256 GiB: make "
                                   "pad.graph smaller");
  }
}

Result<Delivery> MadeWithPad(const std::vector<TensorSpec>& tensors) {
  ConsumerProgram program;
  program.text.outputs = {{tensors.front().path}};
  program.graph_pad = GraphPad{8, 8, 8};
  return Delivery::Make(tensors, program, DType::kInt32);
}

TEST_CASE("only a batch with one graph an example can be padded", "[graph_padding]") {
  TensorSpec number;
  number.path = "number";
  number.dimension = "batch";
  number.max = 9;
  CHECK(MadeWithPad({number}).status() ==
        InvalidArgument("graph: the source's examples have no edges, so there is no graph to pad; "
                        "expected a source of graphs"));
  test::ModelPlan plan;
  plan.expand.base_edge_labels = 1;
  plan.branches = {"a/", "b/"};
  CHECK(MadeWithPad(test::Tensors(plan)).status().message() ==
        "graph: the source's examples have 2 graphs each, with the splits a/edge_splits, "
        "b/edge_splits; expected one");
  plan.branches = {""};
  CHECK(MadeWithPad(test::Tensors(plan)).ok());
  number.path = "node_mask";
  plan.declared = {number};
  CHECK_THAT(MadeWithPad(test::Tensors(plan)).status().message(),
             Catch::StartsWith("graph: a tensor node_mask travels"));
  number.path = "others";
  number.dimension = "nodes";
  number.kind = TensorKind::kRaggedValues;
  number.splits = "others.splits";
  plan.declared = {number};
  CHECK(MadeWithPad(test::Tensors(plan)).status().message() ==
        "graph: others has nodes that others.splits cuts, and edges join those that node_splits "
        "cuts; expected one kind of nodes");
}

TEST_CASE("a program that makes a tensor with the name of a mask is refused", "[graph_padding]") {
  test::ModelPlan plan;
  plan.expand.base_edge_labels = 1;
  ConsumerProgram program;
  program.text.definitions = {
      {"graph_mask", "cast", {"node_label"}, Params({{"dtype", std::string("bool")}})}};
  program.text.outputs = {{"graph_mask"}};
  program.graph_pad = GraphPad{8, 8, 8};
  CHECK_THAT(Delivery::Make(test::Tensors(plan), program, DType::kInt32).status().message(),
             Catch::StartsWith("graph_mask: two tensors of a batch would have this name"));
}

}  // namespace
}  // namespace millrace
