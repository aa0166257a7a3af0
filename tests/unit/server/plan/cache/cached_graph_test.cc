// What is built again of a graph dataset after a change, counted.
#include <catch2/catch.hpp>

#include <string>

#include "server/kinds/graph/format/graph_dataset.h"
#include "server/kinds/graph/generator/graph_generator.h"
#include "server/kinds/graph/writer/array_writer.h"
#include "server/kinds/graph/writer/graph_sealer.h"
#include "tests/unit/server/plan/cache/cached_world.h"

namespace millrace::test {
namespace {

/// 200 nodes in 8 small graphs, and a list of 40 roots.
struct CachedGraph : CachedWorld {
  explicit CachedGraph(const std::string& of = "{roots: train}") {
    source = of;
    GraphGeneratorReport report;
    const GraphGeneratorOptions made = {.nodes = 200,
                                        .features = 2,
                                        .edge_features = 3,
                                        .node_labels = 4,
                                        .edge_labels = 2,
                                        .roots = 40,
                                        .graphs = 8};
    REQUIRE(GenerateGraph(data, made, &report).ok());
  }

  /// Adds a list with the nodes first to first + count - 1, all of them twice.
  void AddTwice(const std::string& name, int first, int count) const {
    const auto dataset = *GraphDataset::Open(data);
    GraphSealer sealer(data, dataset->description());
    auto list = ArrayWriter::Create(data, "roots/" + name + ".npy",
                                    {DType::kInt32, {static_cast<std::uint64_t>(2 * count)}});
    REQUIRE(list.ok());
    for (int row = 0; row < 2 * count; ++row) {
      REQUIRE(list->Append(static_cast<std::int32_t>(first + row % count)).ok());
    }
    sealer.AddWritten("roots/" + name, *std::move(*list).Finish());
    REQUIRE(sealer.Seal().ok());
  }
  /// The dataset without an array.
  void RemoveArray(const std::string& name) const {
    const auto dataset = *GraphDataset::Open(data);
    GraphDescription description = dataset->description();
    description.arrays.erase(name);
    REQUIRE(GraphSealer(data, description).Seal().ok());
  }
};

TEST_CASE("closures of a graph are built once, whatever comes after them", "[cached]") {
  const CachedGraph world;
  CHECK(world.Builds() == 40);
  for (const char* const more :
       {"", "shuffle: {seed: 1}\n", "batch: {size: 7, remainder: drop}\n",
        "filter: {where: \"degree > 2\"}\n",
        "split: {method: hash, proportions: [1, 1], take: 1}\n", "output: [node, edge_source]\n",
        "tensors: {x: {lookup: node, table: node_feature/x}}\n"}) {
    INFO(more);
    CHECK(world.Builds(more) == 0);
  }
}

TEST_CASE("what decides how a closure is built builds all of them again", "[cached]") {
  const CachedGraph world;
  CHECK(world.Builds() == 40);
  for (const char* const more :
       {"closure: {max_subgraph_size: 5}\n", "closure: {stop_at: [1]}\n", "features: [x]\n",
        "edge_features: [w]\n", "targets: [y]\n", "output: [edge, edge_source]\n"}) {
    INFO(more);
    CHECK(world.Builds(more) == 40);
    CHECK(world.Builds(more) == 0);
  }
  CHECK(world.Builds() == 0);
}

TEST_CASE("small graphs are built once", "[cached]") {
  const CachedGraph world("{graphs: small}");
  CHECK(world.Builds("targets: [y]\nfeatures: [x]\n") == 8);
  CHECK(world.Builds("targets: [y]\nfeatures: [x]\nshuffle: {seed: 1}\n") == 0);
  CHECK(world.Builds("features: [x]\n") == 8);
}

TEST_CASE("a root that a list has twice is built once", "[cached]") {
  const CachedGraph world("{roots: twice}");
  world.AddTwice("twice", 0, 20);
  CHECK(world.Builds() == 20);
}

TEST_CASE("arrays that a pipeline does not read may come and go", "[cached]") {
  const CachedGraph world;
  CHECK(world.Builds("features: [x]\n") == 40);
  world.AddTwice("twice", 0, 20);
  world.RemoveArray("edge_feature/w");
  CHECK(world.Builds("features: [x]\n") == 0);
  // Labels of nodes are in every batch.
  world.RemoveArray("node_label");
  CHECK(world.Builds("features: [x]\n") == 40);
}

TEST_CASE("features that changed are gathered again, if the pipeline reads them", "[cached]") {
  const CachedGraph world;
  CHECK(world.Builds("features: [x]\n") == 40);
  CHECK(world.Builds() == 40);
  const auto dataset = *GraphDataset::Open(world.data);
  GraphSealer sealer(world.data, dataset->description());
  auto other = ArrayWriter::Create(world.data, "other.npy", {DType::kFloat32, {200, 2}});
  REQUIRE(other.ok());
  for (int i = 0; i < 400; ++i) REQUIRE(other->Append(static_cast<float>(i)).ok());
  sealer.AddWritten("node_feature/x", *std::move(*other).Finish());
  REQUIRE(sealer.Seal().ok());
  CHECK(world.Builds("features: [x]\n") == 40);
  CHECK(world.Builds() == 0);
}

TEST_CASE("nothing of a graph is written to disk before its contents were verified", "[cached]") {
  CachedGraph world;
  world.Restart(0);
  PlanLibrary library(world.Options(world.kept), MakeNullLogger());
  const auto plan = library.Compile(world.Text("cache: {examples: disk}\n"));
  REQUIRE(plan.ok());
  const auto writes_after_an_epoch = [&] {
    TwoEpochs(**plan);
    CHECK_FALSE(library.CheckFiles());
    world.kept->Flush();
    return world.kept->stats().cache.disk->writes;
  };
  CHECK(library.GetStatus("d")->unverified > 0);
  CHECK(writes_after_an_epoch() == 0);
  // That look has compared all contents.
  CHECK(library.GetStatus("d")->unverified == 0);
  CHECK(writes_after_an_epoch() == 40);
}

TEST_CASE("a graph that was replaced is built anew", "[cached]") {
  const CachedGraph world;
  CHECK(world.Builds() == 40);
  std::filesystem::remove_all(world.data);
  GraphGeneratorReport report;
  REQUIRE(GenerateGraph(world.data,
                        {.seed = 1, .nodes = 200, .features = 2, .node_labels = 4, .roots = 40},
                        &report)
              .ok());
  CHECK(world.Builds() == 40);
}

TEST_CASE("rows of targets are told apart though their roots are the same", "[cached]") {
  const CachedGraph world("{roots: twice}");
  world.AddTwice("twice", 0, 20);
  const auto dataset = *GraphDataset::Open(world.data);
  GraphSealer sealer(world.data, dataset->description());
  auto targets = ArrayWriter::Create(world.data, "targets.npy", {DType::kInt32, {40}});
  REQUIRE(targets.ok());
  for (std::int32_t row = 0; row < 40; ++row) REQUIRE(targets->Append(100 + row).ok());
  sealer.AddWritten("targets/twice/z", *std::move(*targets).Finish());
  REQUIRE(sealer.Seal().ok());
  CHECK(world.Builds("targets: [z]\n") == 40);
  CHECK(world.Builds("targets: [z]\n") == 0);
}

}  // namespace
}  // namespace millrace::test
