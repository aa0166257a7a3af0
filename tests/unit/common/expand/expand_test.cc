#include <sys/mman.h>

#include <rapidcheck.h>
#include <catch2/catch.hpp>

#include <rapidcheck/catch.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "common/batch/layout/batch_header.h"
#include "common/batch/layout/integer_visit.h"
#include "common/expand/expand.h"
#include "tests/unit/common/batch/model_batch.h"

namespace millrace {
namespace {

using test::ModelBatch;
using test::ModelEdge;
using test::ModelExample;
using test::Values;

/// One branch of the delivered form, as the page describes it.
struct Expected {
  std::vector<std::int64_t> source, target, label, edge_splits{0}, node_label, node_splits{0};
};

Expected ByThePage(const ModelBatch& batch, std::size_t branch) {
  Expected e;
  for (const test::ModelGraph& graph : batch.GraphsOf(branch)) {
    const std::int64_t first = e.node_splits.back();
    for (const ModelEdge& edge : test::CompleteByThePage(graph, batch.plan.expand)) {
      e.source.push_back(first + edge.source);
      e.target.push_back(first + edge.target);
      e.label.push_back(edge.label);
    }
    for (const std::uint32_t label : graph.node_labels) e.node_label.push_back(label);
    e.edge_splits.push_back(static_cast<std::int64_t>(e.source.size()));
    e.node_splits.push_back(static_cast<std::int64_t>(e.node_label.size()));
  }
  return e;
}

/// Declared tensors have the values of the examples, one after another: kept ones the bytes.
void CheckDeclared(const ModelBatch& model, const DeliveredBatch& batch) {
  for (std::size_t i = 0; i < model.plan.declared.size(); ++i) {
    const TensorSpec& spec = model.plan.declared[i];
    std::string expected;
    for (const ModelExample& example : model.examples) expected += example.declared[i];
    const DeliveredTensor& tensor = *batch.Find(spec.path);
    if (spec.expansion == Expansion::kKeep) {
      RC_ASSERT(expected == std::string(reinterpret_cast<const char*>(tensor.data), tensor.bytes));
      continue;
    }
    const std::size_t values = expected.size() / DTypeSize(spec.dtype);
    RC_ASSERT(values == tensor.bytes / DTypeSize(tensor.dtype));
    for (std::size_t k = 0; k < values; ++k) {
      const auto* bytes = reinterpret_cast<const std::byte*>(expected.data());
      RC_ASSERT(tensor.ValueAt(k) == internal::LoadValue(bytes, spec.dtype, k));
    }
  }
}

void CheckAgainstThePage(const ModelBatch& model, const DeliveredBatch& batch) {
  for (std::size_t b = 0; b < model.plan.branches.size(); ++b) {
    const std::string& prefix = model.plan.branches[b];
    const Expected e = ByThePage(model, b);
    RC_ASSERT(Values(batch, prefix + "edge_source") == e.source);
    RC_ASSERT(Values(batch, prefix + "edge_target") == e.target);
    if (model.plan.edge_labels) RC_ASSERT(Values(batch, prefix + "edge_label") == e.label);
    RC_ASSERT(Values(batch, prefix + "edge_splits") == e.edge_splits);
    RC_ASSERT(Values(batch, prefix + "node_label") == e.node_label);
    RC_ASSERT(Values(batch, prefix + "node_splits") == e.node_splits);
  }
  std::vector<std::int64_t> first_node = ByThePage(model, 0).node_splits;
  // The examples of a merged batch number the nodes of its only graph.
  if (model.plan.expand.merged) first_node.assign(model.examples.size(), 0);
  std::vector<std::int64_t> roots, contexts, context_splits{0}, args, steps, ids;
  std::string text;
  for (std::size_t i = 0; i < model.examples.size(); ++i) {
    const ModelExample& example = model.examples[i];
    roots.push_back(first_node[i] + example.root);
    for (const std::uint32_t node : example.context) contexts.push_back(first_node[i] + node);
    context_splits.push_back(static_cast<std::int64_t>(contexts.size()));
    args.insert(args.end(), example.args.begin(), example.args.end());
    steps.push_back(example.step);
    ids.push_back(static_cast<std::int64_t>(example.id));
    text += example.text;
  }
  RC_ASSERT(Values(batch, "root") == roots);
  RC_ASSERT(Values(batch, "local_context") == contexts);
  RC_ASSERT(Values(batch, "local_context_splits") == context_splits);
  RC_ASSERT(Values(batch, "local_args") == args);
  RC_ASSERT(Values(batch, "proof_step") == steps);
  RC_ASSERT(Values(batch, "example_id") == ids);
  const auto bytes = batch.Find("state_text")->values<std::uint8_t>();
  RC_ASSERT(std::equal(bytes.begin(), bytes.end(), text.begin(), text.end(),
                       [](std::uint8_t a, char b) { return a == static_cast<std::uint8_t>(b); }));
  CheckDeclared(model, batch);
}

void CheckLayout(const ModelBatch& model, const DeliveredBatch& batch, DType index_dtype) {
  std::vector<std::byte> rest(batch.bytes().begin(), batch.bytes().end());
  const std::vector<TensorSpec> specs = test::Tensors(model.plan);
  RC_ASSERT(batch.tensors().size() == specs.size());
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const DeliveredTensor& tensor = batch.tensors()[i];
    RC_ASSERT(tensor.path == specs[i].path);
    RC_ASSERT(tensor.dimensions.size() == 1 + specs[i].inner.size());
    RC_ASSERT(tensor.dimensions[0] == specs[i].dimension);
    RC_ASSERT(tensor.splits == specs[i].splits);
    RC_ASSERT(tensor.node_splits == specs[i].node_splits);
    for (std::size_t d = 0; d < specs[i].inner.size(); ++d) {
      RC_ASSERT(tensor.shape[d + 1] == specs[i].inner[d]);
      RC_ASSERT(tensor.dimensions[d + 1] == std::to_string(specs[i].inner[d]));
    }
    RC_ASSERT(tensor.dtype ==
              (specs[i].expansion == Expansion::kKeep ? specs[i].dtype : index_dtype));
    RC_ASSERT(tensor.bytes == tensor.shape[0] * specs[i].row_values() * DTypeSize(tensor.dtype));
    RC_ASSERT(reinterpret_cast<std::uintptr_t>(tensor.data) % kTensorAlignment == 0u);
    std::memset(rest.data() + (tensor.data - batch.bytes().data()), 0, tensor.bytes);
  }
  RC_ASSERT(std::all_of(rest.begin(), rest.end(), [](std::byte b) { return b == std::byte{0}; }));
}

TEST_CASE("expand(pack(batch)) is what the page on reference semantics says", "[expand]") {
  rc::prop("all symmetrizations, dtypes, branches", [] {
    const auto seed = *rc::gen::arbitrary<std::uint64_t>();
    ModelBatch model = test::RandomBatch(seed, *rc::gen::inRange(0, 24));
    if (*rc::gen::arbitrary<bool>()) model = test::Merged(std::move(model));
    const DType index_dtype = *rc::gen::element(DType::kInt32, DType::kInt64);
    BufferPool pool;
    {
      auto dirty = pool.Acquire(1 << 16);
      std::memset((*dirty)->data(), 0xff, (*dirty)->capacity());
    }
    const auto packed = test::Pack(model, pool);
    const auto delivered = Expand(*packed, index_dtype, pool);
    if (!delivered.ok()) RC_FAIL(delivered.status().ToString());
    CheckAgainstThePage(model, **delivered);
    CheckLayout(model, **delivered, index_dtype);
    RC_ASSERT((*delivered)->info() == packed->info());
    const auto layout = LayOutExpanded(*packed, index_dtype);
    RC_ASSERT(layout.ok());
    RC_ASSERT(layout->bytes == (*delivered)->bytes().size());
  });
}

TEST_CASE("the micro-batches of a batch are what its examples alone would be", "[expand]") {
  rc::prop("all symmetrizations, dtypes, branches, numbers of micro-batches", [] {
    const auto seed = *rc::gen::arbitrary<std::uint64_t>();
    const ModelBatch model = test::RandomBatch(seed, *rc::gen::inRange(0, 24));
    const DType index_dtype = *rc::gen::element(DType::kInt32, DType::kInt64);
    const auto micro = *rc::gen::inRange<std::size_t>(1, 30);
    BufferPool pool;
    const auto packed = test::Pack(model, pool);
    std::size_t seen = 0;
    std::size_t dropped = 0;
    std::vector<LostPieces> lost;
    for (std::size_t index = 0; index < micro; ++index) {
      const RowRange rows = RowsOfMicroBatch(packed->examples(), index, micro);
      RC_ASSERT(rows.first == seen);
      RC_ASSERT(rows.count <= packed->examples() / micro + 1);
      seen += rows.count;
      ModelBatch alone = model;
      const auto first = model.examples.begin() + static_cast<std::ptrdiff_t>(rows.first);
      alone.examples.assign(first, first + static_cast<std::ptrdiff_t>(rows.count));
      const auto delivered = Expand(*packed, index_dtype, pool, rows);
      if (!delivered.ok()) RC_FAIL(delivered.status().ToString());
      CheckAgainstThePage(alone, **delivered);
      CheckLayout(alone, **delivered, index_dtype);
      RC_ASSERT((*delivered)->examples() == rows.count);
      const BatchInfo& info = (*delivered)->info();
      dropped += info.dropped.size();
      lost.insert(lost.end(), info.lost_pieces.begin(), info.lost_pieces.end());
    }
    RC_ASSERT(seen == packed->examples());
    if (seen > 0) RC_ASSERT(dropped == model.dropped.size());
    if (seen > 0) RC_ASSERT(lost == model.lost_pieces);
  });
}

/// Two examples, so that offsets matter; they have 2 and 3 nodes, and 2 and 3 edges.
ModelBatch TwoGraphs(Symmetrization symmetrization, bool self_edges) {
  ModelBatch batch;
  batch.plan.expand = {2, symmetrization, self_edges};
  ModelExample a;
  a.id = 10;
  a.graphs = {{{7, 8}, {{0, 1, 0}, {1, 1, 1}}}};
  ModelExample b;
  b.id = 11;
  b.root = 2;
  b.context = {1, 2};
  b.graphs = {{{7, 8, 9}, {{0, 1, 0}, {0, 2, 0}, {2, 0, 1}}}};
  batch.examples = {a, b};
  return batch;
}

using Numbers = std::vector<std::int64_t>;

std::shared_ptr<const DeliveredBatch> ExpandModel(const ModelBatch& model, BufferPool& pool) {
  const auto delivered = Expand(*test::Pack(model, pool), DType::kInt32, pool);
  REQUIRE(delivered.ok());
  return *delivered;
}

TEST_CASE("undirected edges follow their group reversed", "[expand]") {
  BufferPool pool;
  const auto batch = ExpandModel(TwoGraphs(Symmetrization::kUndirected, true), pool);
  CHECK(Values(*batch, "edge_source") == Numbers{0, 1, 1, 1, 0, 1, 2, 2, 3, 4, 4, 2, 2, 3, 4});
  CHECK(Values(*batch, "edge_target") == Numbers{1, 0, 1, 1, 0, 1, 3, 4, 2, 2, 2, 4, 2, 3, 4});
  CHECK(Values(*batch, "edge_label") == Numbers{0, 0, 1, 1, 2, 2, 0, 0, 0, 0, 1, 1, 2, 2, 2});
  CHECK(Values(*batch, "edge_splits") == Numbers{0, 6, 15});
}

TEST_CASE("bidirectional edges follow all groups, with labels of their own", "[expand]") {
  BufferPool pool;
  const auto batch = ExpandModel(TwoGraphs(Symmetrization::kBidirectional, true), pool);
  CHECK(Values(*batch, "edge_source") == Numbers{0, 1, 1, 1, 0, 1, 2, 2, 4, 3, 4, 2, 2, 3, 4});
  CHECK(Values(*batch, "edge_target") == Numbers{1, 1, 0, 1, 0, 1, 3, 4, 2, 2, 2, 4, 2, 3, 4});
  CHECK(Values(*batch, "edge_label") == Numbers{0, 1, 2, 3, 4, 4, 0, 0, 1, 2, 2, 3, 4, 4, 4});
  CHECK(Values(*batch, "root") == Numbers{0, 4});
  CHECK(Values(*batch, "local_context") == Numbers{3, 4});
}

TEST_CASE("without symmetrization and self edges the edges stay as they are", "[expand]") {
  BufferPool pool;
  const auto batch = ExpandModel(TwoGraphs(Symmetrization::kDirected, false), pool);
  CHECK(Values(*batch, "edge_source") == Numbers{0, 1, 2, 2, 4});
  CHECK(Values(*batch, "edge_splits") == Numbers{0, 2, 5});
}

TEST_CASE("edges without labels are delivered without labels, reversed or not", "[expand]") {
  BufferPool pool;
  ModelBatch model = test::WithoutEdgeLabels(TwoGraphs(Symmetrization::kDirected, false));
  const auto plain = ExpandModel(model, pool);
  CHECK(Values(*plain, "edge_source") == Numbers{0, 1, 2, 2, 4});
  CHECK(Values(*plain, "edge_target") == Numbers{1, 1, 3, 4, 2});
  CHECK(plain->Find("edge_label") == nullptr);
  model.plan.expand.symmetrization = Symmetrization::kUndirected;
  const auto both = ExpandModel(model, pool);
  // All edges of an example are one group.
  CHECK(Values(*both, "edge_source") == Numbers{0, 1, 1, 1, 2, 2, 4, 3, 4, 2});
  CHECK(Values(*both, "edge_target") == Numbers{1, 1, 0, 1, 3, 4, 2, 2, 2, 4});
  CHECK(Values(*both, "edge_splits") == Numbers{0, 4, 10});
  CHECK(both->Find("edge_label") == nullptr);
}

TEST_CASE("a number that does not fit int32 is an error that names tensor and remedy", "[expand]") {
  ModelBatch model = TwoGraphs(Symmetrization::kDirected, false);
  BufferPool pool;
  const std::uint64_t too_large = GENERATE(as<std::uint64_t>{}, std::uint64_t{1} << 31,
                                           std::uint64_t{1} << 32, (std::uint64_t{1} << 32) + 5);
  model.plan.max_id = GENERATE(as<std::uint64_t>{}, 0xffff'ffffu, std::uint64_t{1} << 40);
  if (too_large > model.plan.max_id) return;
  model.examples[1].id = too_large;
  const auto packed = test::Pack(model, pool);
  const auto narrow = Expand(*packed, DType::kInt32, pool);
  REQUIRE_FALSE(narrow.ok());
  CHECK(narrow.status().code() == StatusCode::kOutOfRange);
  CHECK_THAT(narrow.status().message(),
             Catch::Contains("tensor example_id: value " + std::to_string(too_large)));
  CHECK_THAT(narrow.status().message(), Catch::Contains("`index_dtype: int64`"));
  const auto wide = Expand(*packed, DType::kInt64, pool);
  REQUIRE(wide.ok());
  CHECK(Values(**wide, "example_id")[1] == static_cast<std::int64_t>(too_large));
}

TEST_CASE("the largest int32 fits", "[expand]") {
  ModelBatch model = TwoGraphs(Symmetrization::kDirected, false);
  model.plan.max_id = GENERATE(as<std::uint64_t>{}, 0xffff'ffffu, std::uint64_t{1} << 40);
  model.examples[1].id = 0x7fff'ffff;
  BufferPool pool;
  CHECK(Values(*ExpandModel(model, pool), "example_id")[1] == 0x7fff'ffff);
}

TEST_CASE("only int32 and int64 are index types", "[expand]") {
  BufferPool pool;
  const auto packed = test::Pack(TwoGraphs(Symmetrization::kDirected, false), pool);
  CHECK(Expand(*packed, DType::kInt16, pool).status().code() == StatusCode::kInvalidArgument);
  CHECK(Expand(*packed, DType::kUint32, pool).status().code() == StatusCode::kInvalidArgument);
}

/// Expands a batch after one value of one tensor was replaced in its bytes.
Status ExpandDamaged(const ModelBatch& model, std::string_view path, std::size_t element,
                     std::uint64_t value) {
  BufferPool pool;
  const auto packed = test::Pack(model, pool);
  const auto copy = test::CopyOf(packed->bytes(), pool);
  const std::size_t tensor = packed->Find(path).value();
  const std::size_t size = DTypeSize(packed->tensors()[tensor].spec.dtype);
  std::memcpy(
      copy->data() + packed->header().size() + packed->tensors()[tensor].offset + element * size,
      &value, size);
  const auto damaged = PackedBatch::Parse(copy, copy->size());
  REQUIRE(damaged.ok());
  return Expand(**damaged, DType::kInt32, pool).status();
}

TEST_CASE("references that leave their example are data loss", "[expand]") {
  const Symmetrization symmetrization = GENERATE(
      Symmetrization::kDirected, Symmetrization::kUndirected, Symmetrization::kBidirectional);
  const ModelBatch model = TwoGraphs(symmetrization, true);
  const auto expect = [&](std::string_view path, std::size_t element, std::uint64_t value,
                          const std::string& message) {
    const Status status = ExpandDamaged(model, path, element, value);
    CHECK(status.code() == StatusCode::kDataLoss);
    CHECK(status.message() == message);
  };
  expect("edge_source", 1, 2,
         "tensor edge_source, row 0 (example 10): edge 1 has node 2, but the example has 2 nodes");
  expect("edge_target", 4, 3,
         "tensor edge_target, row 1 (example 11): edge 2 has node 3, but the example has 3 nodes");
  expect("edge_target", 0, 0xffff,
         "tensor edge_target, row 0 (example 10): edge 0 has node 65535, but the example has 2 "
         "nodes");
  expect("edge_label", 4, 2,
         "tensor edge_label, row 1 (example 11): edge 2 has label 2, but there are 2");
  expect(
      "edge_label", 2, 1,
      "tensor edge_label, row 1 (example 11): edge 1 has label 0 after label 1; edges have to be "
      "grouped by ascending label");
  expect("root", 0, 2, "tensor root, row 0 (example 10): node 2 of an example of 2 nodes");
  expect("local_context", 1, 3,
         "tensor local_context, row 1 (example 11): node 3 of an example of 3 nodes");
}

TEST_CASE("references that leave the graph of a merged batch are data loss", "[expand]") {
  const ModelBatch model = test::Merged(TwoGraphs(Symmetrization::kUndirected, true));
  const auto message = [&](std::string_view path, std::size_t element, std::uint64_t value) {
    const Status status = ExpandDamaged(model, path, element, value);
    CHECK((status.ok() || status.code() == StatusCode::kDataLoss));
    return status.message();
  };
  CHECK(message("root", 0, 4).empty());
  CHECK(message("root", 0, 5) == "tensor root, in the batch's graph: node 5 of 5 nodes");
  CHECK(message("root", 1, 5) == "tensor root, in the batch's graph: node 5 of 5 nodes");
  CHECK(message("local_context", 1, 7) ==
        "tensor local_context, in the batch's graph: node 7 of 5 nodes");
  CHECK(message("edge_target", 1, 5) ==
        "tensor edge_target, in the batch's graph: edge 1 has node 5, but there are 5 nodes");
  CHECK(message("edge_label", 4, 2) ==
        "tensor edge_label, in the batch's graph: edge 4 has label 2, but there are 2");
}

TEST_CASE("a merged batch has no micro-batches", "[expand]") {
  BufferPool pool;
  const auto packed = test::Pack(test::Merged(TwoGraphs(Symmetrization::kDirected, false)), pool);
  CHECK(Expand(*packed, DType::kInt32, pool, RowsOfMicroBatch(2, 0, 1)).ok());
  for (const std::size_t index : {0, 1}) {
    const Status status =
        Expand(*packed, DType::kInt32, pool, RowsOfMicroBatch(2, index, 2)).status();
    CHECK(status.code() == StatusCode::kFailedPrecondition);
    CHECK(status.message() ==
          "the batch is one graph, which cannot be cut into parts: open the session with micro=1, "
          "or write `closure: {merge: false}`");
  }
}

TEST_CASE("edges of a merged batch are completed as those of one graph", "[expand]") {
  BufferPool pool;
  const ModelBatch model = test::Merged(TwoGraphs(Symmetrization::kBidirectional, true));
  const auto batch = ExpandModel(model, pool);
  CHECK(Values(*batch, "edge_source") == Numbers{0, 2, 2, 1, 4, 1, 3, 4, 1, 2, 0, 1, 2, 3, 4});
  CHECK(Values(*batch, "edge_target") == Numbers{1, 3, 4, 1, 2, 0, 2, 2, 1, 4, 0, 1, 2, 3, 4});
  CHECK(Values(*batch, "edge_label") == Numbers{0, 0, 0, 1, 1, 2, 2, 2, 3, 3, 4, 4, 4, 4, 4});
  CHECK(Values(*batch, "edge_splits") == Numbers{0, 15});
  CHECK(Values(*batch, "node_splits") == Numbers{0, 5});
  CHECK(Values(*batch, "root") == Numbers{0, 4});
  CHECK(Values(*batch, "local_context") == Numbers{3, 4});
  const DeliveredTensor& size = *batch->Find("graph_size");
  CHECK(size.shape == std::vector<std::uint64_t>{1, 2});
  CHECK(size.dimensions == std::vector<std::string>{"graphs", "2"});
}

TEST_CASE("examples of a merged batch may have the same root", "[expand]") {
  BufferPool pool;
  ModelBatch model = test::Merged(TwoGraphs(Symmetrization::kDirected, false));
  model.examples[0].root = 4;
  model.examples.push_back(model.examples[0]);
  CHECK(Values(*ExpandModel(model, pool), "root") == Numbers{4, 4, 4});
}

TEST_CASE("edges without labels that leave their example are data loss", "[expand]") {
  const ModelBatch model = test::WithoutEdgeLabels(
      TwoGraphs(GENERATE(Symmetrization::kDirected, Symmetrization::kUndirected), false));
  const Status status = ExpandDamaged(model, "edge_target", 4, 3);
  CHECK(status.code() == StatusCode::kDataLoss);
  CHECK(status.message() ==
        "tensor edge_target, row 1 (example 11): edge 2 has node 3, but the example has 3 nodes");
}

/// A batch of one graph with one node and `edges` edges. Hardly any of its memory is touched.
std::shared_ptr<const PackedBatch> ManyEdges(std::uint64_t edges) {
  BufferPool pool;
  ModelBatch model = TwoGraphs(Symmetrization::kBidirectional, false);
  model.plan.max_nodes = 1;
  model.plan.max_rows = std::uint64_t{1} << 40;
  model.examples.resize(1);
  model.examples[0].graphs[0] = {{7}, {}};
  const auto small = test::Pack(model, pool);
  std::vector<TensorPlace> places = small->tensors();
  for (TensorPlace& place : places) {
    if (place.spec.splits != "edge_splits") continue;
    place.rows = edges;
    place.bytes = edges * DTypeSize(place.spec.dtype);
  }
  const std::uint64_t payload_bytes = LayOutPayload(places);
  const std::uint64_t header_bytes = HeaderBytes(small->info(), places);
  const std::size_t size = header_bytes + payload_bytes;
  void* const memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  REQUIRE(memory != MAP_FAILED);
  const std::shared_ptr<void> owner(memory, [size](void* p) { ::munmap(p, size); });
  const std::span<std::byte> bytes(static_cast<std::byte*>(memory), size);
  EncodeHeader(small->info(), places, payload_bytes, bytes.first(header_bytes));
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (places[i].spec.splits == "edge_splits") continue;
    const auto values = small->tensor_bytes(i);
    std::memcpy(bytes.data() + header_bytes + places[i].offset, values.data(), values.size());
    if (places[i].spec.path != "edge_splits") continue;
    std::memcpy(bytes.data() + header_bytes + places[i].offset + 8, &edges, sizeof(edges));
  }
  const auto parsed = PackedBatch::Parse(bytes, owner);
  REQUIRE(parsed.ok());
  return *parsed;
}

TEST_CASE("more rows than int32 can number are an error before any is written", "[expand]") {
  const std::uint64_t too_many = std::uint64_t{1} << 30;  // 2^31 with reversed edges
  const auto fits = LayOutExpanded(*ManyEdges(too_many - 1), DType::kInt32);
  CHECK(fits.ok());
  const auto packed = ManyEdges(too_many);
  const auto narrow = LayOutExpanded(*packed, DType::kInt32);
  REQUIRE_FALSE(narrow.ok());
  CHECK(narrow.status().code() == StatusCode::kOutOfRange);
  CHECK(narrow.status().message() ==
        "tensor edge_source: number of rows 2147483648 does not fit int32; open the session with "
        "`index_dtype: int64`");
  CHECK(LayOutExpanded(*packed, DType::kInt64).ok());
}

}  // namespace
}  // namespace millrace
