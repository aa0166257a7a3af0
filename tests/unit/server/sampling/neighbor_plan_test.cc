// Plans over sampled neighbourhoods, from the text of a pipeline to a batch.
#include <catch2/catch.hpp>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "common/expand/expand.h"
#include "server/plan/tensors/tensor_plan.h"
#include "tests/unit/server/sampling/neighbor_world.h"

namespace millrace::test {
namespace {

using Catch::Contains;
using Ids = std::vector<std::uint64_t>;
using Numbers = std::vector<std::int64_t>;

/// With this, a batch has the places of its edges too.
const std::string kAll =
    "output: [node, edge, edge_source, edge_target, edge_label, root, hop_nodes, hop_edges]\n";

/// Closures as they are written, and what they mean.
struct Written {
  std::string text;
  NeighborOptions options;
  std::uint64_t seed = 0;
};

std::vector<Written> SomeClosures() {
  std::vector<Written> all;
  all.push_back({"fanout: [3, 2]", {.fanout = {3, 2}}});
  all.push_back({"fanout: [-1, 0, 4], seed: 18446744073709551615",
                 {.fanout = {-1, 0, 4}},
                 ~std::uint64_t{0}});
  all.push_back({"fanout: [4, 3], replace: true, seed: 9223372036854775808",
                 {.fanout = {4, 3}, .replace = true},
                 std::uint64_t{1} << 63});
  all.push_back(
      {"fanout: {c: [1, 2], a: [2, -1]}", {.fanout = {}, .by_label = {{0, {2, -1}}, {2, {1, 2}}}}});
  all.push_back({"fanout: {b: [2, 2]}, replace: true, seed: 7",
                 {.fanout = {}, .by_label = {{1, {2, 2}}}, .replace = true},
                 7});
  return all;
}

TEST_CASE("merged batches are the neighbourhoods of the page", "[neighbors][plan]") {
  for (const GraphRows direction : {GraphRows::kSource, GraphRows::kTarget}) {
    const NeighborWorld world({.rows = direction});
    for (const Written& written : SomeClosures()) {
      INFO(written.text);
      const auto plan = world.MustCompile(written.text, kAll);
      for (const std::uint64_t epoch : {std::uint64_t{0}, std::uint64_t{3}, ~std::uint64_t{0}}) {
        for (const Ids& ids : {Ids{4}, Ids{6, 7, 1, 6}, Ids{30, 2, 3, 4, 5, 9, 11}}) {
          const auto batch = NeighborWorld::Build(*plan, ids, epoch);
          const PlainNeighbors expected = world.Expected(
              ids, written.options, NeighborWorld::KeyOf(written.seed, epoch, ids[0]));
          world.CheckGraph(*batch, expected, 0);
          CHECK(Values(*batch, "node_splits").size() == 2);
          CHECK(Values(*batch, "root") == Numbers(expected.roots.begin(), expected.roots.end()));
          CHECK(batch->info().expand.merged);
        }
      }
    }
  }
}

TEST_CASE("graphs of each root are the neighbourhoods of the page", "[neighbors][plan]") {
  const NeighborWorld world;
  for (Written written : SomeClosures()) {
    for (const bool capped : {false, true}) {
      std::string text = written.text + ", merge: false";
      if (capped) {
        text += ", max_subgraph_size: 5";
        written.options.max_subgraph_size = 5;
      }
      INFO(text);
      const auto plan = world.MustCompile(text, kAll);
      const Ids ids = {6, 7, 1, 6, 39};
      const auto batch = NeighborWorld::Build(*plan, ids, 2);
      REQUIRE(batch->examples() == ids.size());
      for (std::size_t i = 0; i < ids.size(); ++i) {
        world.CheckGraph(*batch,
                         world.Expected({ids[i]}, written.options,
                                        NeighborWorld::KeyOf(written.seed, 2, ids[i])),
                         i);
      }
      CHECK(Values(*batch, "root") == Numbers(5, 0));
      CHECK_FALSE(batch->info().expand.merged);
    }
  }
}

TEST_CASE("a batch of one example is the same merged or not", "[neighbors][plan]") {
  const NeighborWorld world;
  const auto merged = world.MustCompile("fanout: [3, 3]", kAll);
  const auto apart = world.MustCompile("fanout: [3, 3], merge: false", kAll);
  for (std::uint64_t id = 0; id < 40; ++id) {
    const auto a = NeighborWorld::Build(*merged, {id}, 1);
    const auto b = NeighborWorld::Build(*apart, {id}, 1);
    for (const char* path : {"node", "edge", "edge_source", "edge_target", "edge_label", "root",
                             "node_splits", "edge_splits"}) {
      CHECK(Values(*a, path) == Values(*b, path));
    }
  }
}

TEST_CASE("neighbourhoods are the same for any type of a dataset's numbers", "[neighbors][plan]") {
  const NeighborWorld first;
  const auto expected =
      NeighborWorld::Build(*first.MustCompile("fanout: {a: [3, -1], c: [2, 2]}", kAll), {3, 5, 8});
  for (const DType pointers : {DType::kInt32, DType::kUint32, DType::kInt64, DType::kUint64}) {
    for (const DType indices : {DType::kInt32, DType::kUint32, DType::kInt64, DType::kUint64}) {
      const NeighborWorld world({.pointers = pointers, .indices = indices});
      const auto plan = world.MustCompile("fanout: {a: [3, -1], c: [2, 2]}", kAll);
      CHECK(NeighborWorld::Build(*plan, {3, 5, 8})->payload_hash() == expected->payload_hash());
    }
  }
}

TEST_CASE("a graph without labels of edges has neighbourhoods too", "[neighbors][plan]") {
  const NeighborWorld world({.labels = 0});
  const auto plan = world.MustCompile(
      "fanout: [3, 2]", "output: [node, edge, edge_source, edge_target, hop_nodes, hop_edges]\n");
  const auto batch = NeighborWorld::Build(*plan, {1, 2, 3});
  world.CheckGraph(*batch,
                   world.Expected({1, 2, 3}, {.fanout = {3, 2}}, NeighborWorld::KeyOf(0, 0, 1)), 0);
  CHECK(world.Error("fanout: {a: [1]}") ==
        "p.yaml:4:36: closure.fanout: the dataset has no edge label 'a'; it has none");
}

TEST_CASE("excluded examples of a merged batch leave its key as it was", "[neighbors][plan]") {
  const NeighborWorld world;
  const auto plan =
      world.MustCompile("fanout: [3, 2]", "exclude: {examples: [4, 11, 12, 13]}\n" + kAll);
  const auto batch = NeighborWorld::Build(*plan, {4, 9, 11, 10}, 5);
  CHECK(batch->info().planned_examples == 4);
  CHECK(batch->info().example_ids == std::vector<ExampleId>{ExampleId(9), ExampleId(10)});
  CHECK(batch->info().dropped ==
        std::vector<DroppedExample>{{ExampleId(4), DropReason::kExcluded},
                                    {ExampleId(11), DropReason::kExcluded}});
  world.CheckGraph(*batch,
                   world.Expected({9, 10}, {.fanout = {3, 2}}, NeighborWorld::KeyOf(0, 5, 4)), 0);
  // Other lists of excluded examples, and others that are planned, do change nothing but their own.
  const auto none = NeighborWorld::Build(*plan, {4, 11});
  CHECK(none->examples() == 0);
  CHECK(Values(*none, "node_splits") == Numbers{0, 0});
  CHECK(Values(*none, "edge_splits") == Numbers{0, 0});
  CHECK(Values(*none, "root").empty());
  const std::size_t hops = *none->Find("hop_nodes");
  CHECK(none->tensors()[hops].rows == 1);
  for (std::size_t hop = 0; hop < 3; ++hop) CHECK(none->ValueAt(hops, hop) == 0);
  CHECK(Values(*NeighborWorld::Build(*plan, {}), "node_splits") == Numbers{0, 0});
  // In the batches of an epoch too.
  const auto scratch = plan->NewScratch();
  const auto second = plan->Batch(0, {8, 8}, *scratch);
  REQUIRE(second.ok());
  CHECK((*second)->examples() == 5);
  world.CheckGraph(
      **second,
      world.Expected({8, 9, 10, 14, 15}, {.fanout = {3, 2}}, NeighborWorld::KeyOf(0, 0, 8)), 0);
  // Graphs of each root are dropped as ever.
  const auto apart = world.MustCompile("fanout: [3, 2], merge: false",
                                       "exclude: {examples: [4, 11, 12, 13]}\n" + kAll);
  const auto rest = NeighborWorld::Build(*apart, {4, 9, 11, 10}, 5);
  CHECK(rest->examples() == 2);
  world.CheckGraph(*rest, world.Expected({9}, {.fanout = {3, 2}}, NeighborWorld::KeyOf(0, 5, 9)),
                   0);
}

TEST_CASE("a batch of an epoch is drawn anew in each", "[neighbors][plan]") {
  const NeighborWorld world;
  const auto plan = world.MustCompile("fanout: [2, 2]", "shuffle: {seed: 4}\n" + kAll);
  const auto scratch = plan->NewScratch();
  for (const std::uint64_t epoch : {0u, 1u, 2u}) {
    const auto batch = plan->Batch(epoch, {16, 8}, *scratch);
    REQUIRE(batch.ok());
    Ids ids;
    for (const ExampleId id : (*batch)->info().example_ids) ids.push_back(id.value());
    world.CheckGraph(
        **batch, world.Expected(ids, {.fanout = {2, 2}}, NeighborWorld::KeyOf(0, epoch, ids[0])),
        0);
  }
}

/// A batch as a consumer gets it.
std::shared_ptr<const DeliveredBatch> Delivered(const Plan& plan, const PackedBatch& packed) {
  BufferPool pool;
  Result<Delivery> delivery = Delivery(DType::kInt64);
  if (plan.computed() != nullptr && plan.computed()->consumer()) {
    delivery = Delivery::Make(plan.tensors(), *plan.computed()->consumer(), DType::kInt64);
  }
  REQUIRE(delivery.ok());
  auto batch = Expand(packed, *delivery, pool);
  INFO(batch.status().message());
  REQUIRE(batch.ok());
  return *std::move(batch);
}

TEST_CASE("tensors are computed of merged batches, at the worker and at the consumer",
          "[neighbors][plan]") {
  const NeighborWorld world;
  const std::string tensors =
      "tensors:\n"
      "  twice: {expr: \"node_label * 2 + 1\"}\n"
      "  small: {expr: \"node_label > 0\", dtype: uint8}\n"
      "  seen: {lookup: node, table: node_feature/x}\n"
      "  all: {expr: \"hop_nodes + 1\"}\n"
      "  own: {expr: \"example_id * 10\"}\n"
      "output: [node, node_label, root, hop_nodes, example_id, twice, small, seen, all, own]\n";
  for (const char* merge : {"true", "false"}) {
    INFO(merge);
    const auto plan = world.MustCompile(std::string("fanout: [3, 2], merge: ") + merge,
                                        "features: [x]\n" + tensors);
    const Ids ids = {6, 7, 20};
    const auto packed = NeighborWorld::Build(*plan, ids);
    const auto batch = Delivered(*plan, *packed);
    const Numbers node = Values(*batch, "node");
    const Numbers label = Values(*batch, "node_label");
    const Numbers twice = Values(*batch, "twice");
    const Numbers small = Values(*batch, "small");
    REQUIRE(twice.size() == node.size());
    REQUIRE(small.size() == node.size());
    const auto seen = batch->Find("seen")->values<float>();
    REQUIRE(seen.size() == node.size());
    for (std::size_t i = 0; i < node.size(); ++i) {
      CHECK(twice[i] == label[i] * 2 + 1);
      CHECK(small[i] == (label[i] > 0 ? 1 : 0));
      CHECK(seen[i] == static_cast<float>(node[i]) / 2);
    }
    CHECK(batch->Find("twice")->splits == "node_splits");
    const DeliveredTensor& hops = *batch->Find("hop_nodes");
    const DeliveredTensor& all = *batch->Find("all");
    CHECK(all.shape == hops.shape);
    CHECK(all.dimensions == hops.dimensions);
    CHECK(all.dimensions[0] == "graphs");
    CHECK(hops.shape[0] == (*merge == 't' ? 1 : 3));
    for (std::size_t i = 0; i < hops.shape[0] * 3; ++i)
      CHECK(all.ValueAt(i) == hops.ValueAt(i) + 1);
    CHECK(Values(*batch, "own") == Numbers{60, 70, 200});
    // No examples.
    CHECK(Values(*Delivered(*plan, *NeighborWorld::Build(*plan, {})), "twice").empty());
  }
  // Only what is narrower travels, so the worker computes it.
  const auto narrow = world.MustCompile(
      "fanout: [3, 2]",
      "tensors: {many: {expr: \"hop_nodes > 3\", dtype: uint8}}\noutput: [node, many]\n");
  const auto packed = NeighborWorld::Build(*narrow, {6, 7, 20});
  REQUIRE(packed->Find("many").has_value());
  const TensorPlace& many = packed->tensors()[*packed->Find("many")];
  CHECK(many.rows == 1);
  CHECK(many.spec.dimension == "graphs");
  CHECK(many.spec.kind == TensorKind::kDense);
  CHECK(many.spec.inner == std::vector<std::uint64_t>{3});
  CHECK_THAT(world.Error("fanout: [3, 2]", "tensors: {t: {expr: \"hop_nodes + example_id\"}}\n"),
             Contains("graphs") && Contains("batch"));
}

TEST_CASE("merged batches are delivered with added edges", "[neighbors][plan]") {
  const NeighborWorld world;
  const auto plan = world.MustCompile(
      "fanout: [3, 2]", "edges: {symmetrization: bidirectional, add_self_edges: true}\n");
  const auto packed = NeighborWorld::Build(*plan, {6, 7, 20});
  const auto batch = Delivered(*plan, *packed);
  const std::size_t nodes = packed->tensors()[*packed->Find("node")].rows;
  const std::size_t edges = packed->tensors()[*packed->Find("edge_source")].rows;
  CHECK(Values(*batch, "edge_source").size() == 2 * edges + nodes);
  CHECK(Values(*batch, "root") == Numbers{0, 0, 1});
}

}  // namespace
}  // namespace millrace::test
