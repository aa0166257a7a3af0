// Pipelines over sampled neighbourhoods that are refused, and damaged datasets that are sampled.
#include <catch2/catch.hpp>

#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "server/plugin/plugin_registry.h"
#include "tests/support/plugin_fixture.h"
#include "tests/unit/server/sampling/neighbor_world.h"

namespace millrace::test {
namespace {

using Catch::Contains;
using Catch::StartsWith;

TEST_CASE("fan-outs that do not suit the dataset are refused where they are written",
          "[neighbors][plan]") {
  const NeighborWorld world;
  const auto error = [&](const std::string& fanout) { return world.Error("fanout: " + fanout); };
  CHECK(error("{z: [1]}") ==
        "p.yaml:4:36: closure.fanout: the dataset has no edge label 'z'; it has a, b, c");
  // Labels that have names are called by them.
  CHECK(error("{0: [1]}") ==
        "p.yaml:4:36: closure.fanout: the dataset has no edge label '0'; it has a, b, c");
  CHECK(error("{a: [1], b: [1, 2]}") ==
        "p.yaml:4:45: closure.fanout.b: has 2 hops, and another label has 1: expected equally "
        "many; write 0 for a hop that does not follow a label");
  const std::string wrong =
      "p.yaml:4:37: closure.fanout.a: expected a list of integers from -1 to 1048576, one a hop, "
      "got ";
  CHECK(error("{a: 3}") == wrong + "3");
  CHECK(error("{a: []}") == wrong + "[]");
  CHECK(error("{a: [x]}") == wrong + "[\"x\"]");
  CHECK(error("{a: [1.5]}") == wrong + "[1.5]");
  CHECK(error("{a: [-2]}") == wrong + "[-2]");
  CHECK(error("{a: [1048577]}") == wrong + "[1048577]");
  CHECK(error("{a: '[1]'}") == wrong + "\"[1]\"");
  CHECK(error("{a: [1048576]}") == "no error");
  CHECK_THAT(error("{a: [18446744073709551615]}"), StartsWith("p.yaml:4:41: closure.fanout: "));
  CHECK(error("{}") == "p.yaml:4:36: closure.fanout: is empty, expected a number for each hop");
}

TEST_CASE("labels without names are called by their numbers", "[neighbors][plan]") {
  NeighborWorld world;
  world.folder.description.edge_labels.reset();
  REQUIRE(world.folder.Seal().ok());
  world.Open();
  const auto plan = world.MustCompile("fanout: {2: [3], 0: [1]}");
  world.CheckGraph(*NeighborWorld::Build(*plan, {1, 2}),
                   world.Expected({1, 2}, {.fanout = {}, .by_label = {{0, {1}}, {2, {3}}}},
                                  NeighborWorld::KeyOf(0, 0, 1)),
                   0);
  CHECK_THAT(world.Error("fanout: {x: [1]}"), Contains("no edge label 'x'; it has 0 to "));
}

TEST_CASE("what needs the same graphs in every epoch is refused", "[neighbors][plan]") {
  const NeighborWorld world;
  for (const std::string merge : {"fanout: [2]", "fanout: [2], merge: false"}) {
    const auto error = [&](const std::string& more) { return world.Error(merge, more); };
    for (const char* level : {"memory", "disk"}) {
      CHECK(error(std::string("cache: {examples: ") + level + "}\n") ==
            "p.yaml:6:19: cache.examples: what is built of the examples of 'roots' depends on more "
            "than the dataset and the operations, so it cannot be kept; leave cache out");
    }
    for (const std::string column : {"nodes", "edges"}) {
      const std::string why = ": column 1: no input or constant is named '" + column +
                              "'; there are node, degree, node_label; the source has the columns "
                              "node, degree, node_label; no others can be measured, because "
                              "examples are made anew in every epoch";
      CHECK(error("batch: {bucket: {by: " + column + ", count: 2, size: 4}}\n") ==
            "p.yaml:5:22: batch.bucket.by" + why);
      CHECK(error("balance: {by: " + column + "}\n") == "p.yaml:6:15: balance.by" + why);
      CHECK(error("filter: {where: \"" + column + " > 3\"}\n") ==
            "p.yaml:6:17: filter.where" + why);
    }
    CHECK_THAT(error("chunk: {tensor: node, size: 3, step: 3}\n"),
               StartsWith("p.yaml:6:17: chunk.tensor: node has a row for each of the nodes of a "
                          "graph, and a graph is not cut"));
    // Columns that need no graph serve as ever.
    CHECK(error("balance: {by: degree}\n") == "no error");
    CHECK(error("filter: {where: \"degree > 3\"}\n") == "no error");
    CHECK(error("batch: {bucket: {by: degree, bounds: [100], size: 4}}\n") == "no error");
    CHECK_THAT(
        error("edges: {symmetrization: undirected}\noutput: [edge]\n"),
        StartsWith("p.yaml:7:9: output: edge: edges that are added to a batch have no place"));
    CHECK(error("pad: {hop_nodes: {to: 7}}\n") ==
          "p.yaml:6:7: pad.hop_nodes: pad: expected a ragged tensor, got int64[graphs, 2]");
  }
}

TEST_CASE("what merged batches cannot have is refused, and graphs of each root can",
          "[neighbors][plan]") {
  const NeighborWorld world;
  const std::string pad = "pad: {graph: {nodes: 1000, edges: 1000, graphs: 9}}\n";
  CHECK(world.Error("fanout: [2]", pad) ==
        "p.yaml:6:7: pad.graph: a batch is one graph, which is not padded yet; expected `closure: "
        "{merge: false}` beside pad.graph");
  CHECK(world.Error("fanout: [2], merge: false", pad) == "no error");
  const auto mix = [&](const std::string& first) {
    const auto plan = world.CompileText(
        "millrace: 1\nbranches:\n"
        "  one: {dataset: g, source: {roots: some}, closure: {kind: neighbors, fanout: [2]" +
        first +
        "}}\n  two: {dataset: g, source: {roots: some}, closure: {kind: neighbors, fanout: [3], "
        "merge: false}}\nmix: {weights: {one: 1, two: 2}, epoch: 30}\nbatch: {size: 4}\n");
    return plan.ok() ? "no error" : plan.status().message();
  };
  CHECK_THAT(mix(""), Contains("branches: one has one graph a batch, which no other branch can "
                               "share: expected `closure: {merge: false}` in it"));
  CHECK(mix(", merge: false") == "no error");
}

TEST_CASE("the branches of a mix draw with their own passes", "[neighbors][plan]") {
  const NeighborWorld world;
  const auto plan = world.CompileText(
      "millrace: 1\nbranches:\n"
      "  one: {dataset: g, source: {roots: some}, closure: {kind: neighbors, fanout: [2], merge: "
      "false}}\n"
      "  two: {dataset: g, source: {roots: some}, closure: {kind: neighbors, fanout: [3], merge: "
      "false, seed: 9}}\n"
      "mix: {weights: {one: 1, two: 3}, epoch: 100}\nbatch: {size: 100}\n");
  INFO(plan.status().message());
  REQUIRE(plan.ok());
  const auto scratch = (*plan)->NewScratch();
  std::set<std::uint64_t> passes;
  for (const std::uint64_t epoch : {0u, 1u}) {
    // 75 examples of the second branch an epoch, of 40: its pass changes within each epoch.
    const auto batch = (*plan)->Batch(epoch, {0, 100}, *scratch);
    INFO(batch.status().message());
    REQUIRE(batch.ok());
    std::vector<OrderRow> rows;
    (*plan)->planned_order().order->NewReader()->Rows(epoch, {0, 100}, rows);
    for (std::size_t i = 0; i < 100; ++i) {
      const std::uint64_t mixed = (*batch)->info().example_ids[i].value();
      const std::size_t branch = mixed < 40 ? 0 : 1;
      const std::uint64_t pass = rows[i].pass;
      const std::uint64_t id = mixed % 40;
      passes.insert(pass);
      INFO("row " << i << ", branch " << branch << ", pass " << pass);
      world.CheckGraph(**batch,
                       world.Expected({id}, {.fanout = {branch == 0 ? 2 : 3}},
                                      NeighborWorld::KeyOf(branch == 0 ? 0 : 9, pass, id)),
                       i);
    }
  }
  CHECK(passes == std::set<std::uint64_t>{0, 1, 2, 3});
}

TEST_CASE("a function of a merged batch is refused where it is written", "[neighbors][plan]") {
  PluginFixture plugin(R"(
    __all__ = ["count"]

    def count(example_id):
        return np.int64(example_id)
)");
  NeighborWorld world;
  PluginRegistryOptions registry;
  registry.plugins.emplace("plugin", plugin.options().plugin);
  registry.copies = plugin.copies();
  PlanLibraryOptions options;
  options.kinds = ProductKinds();
  options.plugins = std::make_shared<PluginRegistry>(std::move(registry));
  options.datasets["g"].dir = world.folder.dir.path();
  world.library = std::make_unique<PlanLibrary>(std::move(options), MakeNullLogger());
  const std::string function =
      "tensors:\n  n: {python: 'plugin:count', inputs: [example_id], type: int64}\n";
  CHECK(world.Error("fanout: [2]", function) ==
        "p.yaml:7:15: tensors.n.python: a function of a batch that is one graph is not yet "
        "supported; "
        "expected `closure: {merge: false}`");
}

/// Damages a folder in place, and gives the error of all its neighbourhoods.
class Damaged {
 public:
  Damaged(std::string closure, std::string more)
      : closure_(std::move(closure)), more_(std::move(more)) {}

  template <class T>
  std::string ErrorAfter(const std::string& array, std::uint64_t place, T value) {
    const auto file = world_.folder.dir.path() / (array + ".npy");
    const std::string bytes = ReadText(file);
    OverwriteValue<T>(file, place, value);
    world_.Open();
    const std::string error = Error();
    WriteText(file, bytes);
    return error;
  }
  std::string Error() const {
    const auto plan = world_.Compile(closure_, more_);
    if (!plan.ok()) return plan.status().message();
    std::vector<ExampleId> all;
    for (std::uint64_t id = 0; id < 40; ++id) all.emplace_back(id);
    const auto batch = (*plan)->BatchOf(all, 0, *(*plan)->NewScratch());
    return batch.ok() ? "no error" : batch.status().message();
  }
  const NeighborWorld& world() const { return world_; }

 private:
  NeighborWorld world_;
  std::string closure_;
  std::string more_;
};

TEST_CASE("numbers that are out of range are named with their file when they are sampled",
          "[neighbors][hostile_graph]") {
  for (const std::string closure :
       {"fanout: [-1, -1, -1]", "fanout: {a: [-1, -1, -1], b: [-1, -1, -1]}",
        "fanout: [-1, -1, -1], merge: false"}) {
    INFO(closure);
    Damaged damaged(closure, "");
    REQUIRE(damaged.Error() == "no error");
    const auto& world = damaged.world();
    // A root's row.
    const std::uint64_t node = world.roots[0];
    const auto named = [](const std::string& array) {
      return Contains(array + ".npy (array " + array + ")");
    };
    for (const std::int64_t value :
         {std::int64_t{-1}, std::int64_t{1} << 40, std::int64_t{1} << 62}) {
      CHECK_THAT(damaged.ErrorAfter<std::int64_t>("indptr", node, value), named("indptr"));
    }
    // The first entry that is followed.
    std::uint64_t entry = 0;
    for (std::uint64_t root : world.roots) {
      if (world.rows[root].empty()) continue;
      entry = 0;
      for (std::uint64_t i = 0; i < root; ++i) entry += world.rows[i].size();
      if (world.rows[root][0].label == 0) break;
    }
    for (const std::int32_t value : {60, -1, std::numeric_limits<std::int32_t>::max()}) {
      CHECK_THAT(damaged.ErrorAfter<std::int32_t>("indices", entry, value), named("indices"));
    }
    for (const std::uint8_t value : {std::uint8_t{3}, std::uint8_t{255}}) {
      CHECK_THAT(damaged.ErrorAfter<std::uint8_t>("edge_label", entry, value), named("edge_label"));
    }
    CHECK_THAT(damaged.ErrorAfter<std::int64_t>("roots/some", 3, 60),
               Contains("(array roots/some)"));
    CHECK_THAT(damaged.ErrorAfter<std::uint8_t>("node_label", node, 200), named("node_label"));
  }
}

TEST_CASE("labels that do not ascend give no other entries than those of the row",
          "[neighbors][hostile_graph]") {
  // Such a folder gives graphs all the same: its contents are as they were hashed.
  NeighborWorld world;
  std::vector<std::uint8_t> labels(world.folder.description.edges);
  std::mt19937_64 random(3);
  for (std::uint8_t& label : labels) label = static_cast<std::uint8_t>(random() % 3);
  std::filesystem::remove(world.folder.dir.path() / "edge_label.npy");
  world.folder.Add<std::uint8_t>("edge_label", DType::kUint8, labels);
  REQUIRE(world.folder.Seal().ok());
  world.Open();
  const auto plan = world.MustCompile("fanout: {a: [-1, 3], c: [4, -1]}", "output: [node, edge]\n");
  const auto batch = NeighborWorld::Build(*plan, {0, 1, 2, 3});
  CHECK(batch->tensors()[*batch->Find("edge")].rows > 0);
  CHECK(NeighborWorld::Build(*plan, {0, 1, 2, 3})->payload_hash() == batch->payload_hash());
}

}  // namespace
}  // namespace millrace::test
