// Plans over graph datasets, from the text of a pipeline to a batch.
#include <catch2/catch.hpp>

#include <algorithm>
#include <filesystem>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "common/batch/batch.h"
#include "common/expand/expand.h"
#include "common/operations/tensor_graph.h"
#include "server/catalog/product_kinds.h"
#include "server/files/sigbus_guard.h"
#include "server/kinds/graph/format/graph_dataset.h"
#include "server/kinds/graph/generator/graph_generator.h"
#include "server/kinds/graph/writer/array_writer.h"
#include "server/kinds/graph/writer/graph_sealer.h"
#include "server/plan/plan_library.h"
#include "server/plan/tensors/tensor_plan.h"
#include "server/source/source.h"
#include "tests/support/dataset_fixture.h"

namespace millrace::test {
namespace {

/// 400 nodes in 10 small graphs.
struct World {
  World() {
    GraphGeneratorReport report;
    const GraphGeneratorOptions made = {.nodes = 400,
                                        .features = 2,
                                        .edge_features = 3,
                                        .node_labels = 4,
                                        .edge_labels = 2,
                                        .roots = 100,
                                        .graphs = 10};
    REQUIRE(GenerateGraph(dir / "graph", made, &report).ok());
    AddList();
    PlanLibraryOptions options;
    options.kinds = ProductKinds();
    options.datasets["g"].dir = dir / "graph";
    library = std::make_unique<PlanLibrary>(std::move(options), MakeNullLogger());
  }

  /// Adds roots/twice: nodes 0 to 39, each of them twice.
  void AddList() const {
    const auto dataset = *GraphDataset::Open(dir / "graph");
    GraphSealer sealer(dir / "graph", dataset->description());
    auto list = ArrayWriter::Create(dir / "graph", "roots/twice.npy", {DType::kInt32, {80}});
    REQUIRE(list.ok());
    for (std::int32_t row = 0; row < 80; ++row) REQUIRE(list->Append(row % 40).ok());
    sealer.AddWritten("roots/twice", *std::move(*list).Finish());
    REQUIRE(sealer.Seal().ok());
  }

  Result<std::shared_ptr<const Plan>> Compile(const std::string& source,
                                              const std::string& more = "") const {
    PipelineSource pipeline;
    pipeline.yaml =
        "millrace: 1\ndataset: g\nbatch: {size: 8, remainder: keep}\nsource: " + source + "\n" +
        more;
    return library->Compile(pipeline);
  }
  std::shared_ptr<const Plan> MustCompile(const std::string& source,
                                          const std::string& more = "") const {
    auto plan = Compile(source, more);
    INFO(plan.status().message());
    REQUIRE(plan.ok());
    return *plan;
  }

  TempDir dir;
  std::unique_ptr<PlanLibrary> library;
};

Result<std::shared_ptr<const PackedBatch>> Build(const Plan& plan) {
  const auto scratch = plan.NewScratch();
  return plan.Batch(0, {0, static_cast<std::uint32_t>(plan.counts().selected)}, *scratch);
}

TEST_CASE("a pipeline over roots of a graph dataset is compiled and built", "[graph_plan]") {
  const World world;
  const auto plan = world.MustCompile("{roots: train}", "closure: {stop_at: [node0, node2]}\n");
  CHECK(plan->counts().selected == 100);
  const auto batch = Build(*plan);
  INFO(batch.status().message());
  REQUIRE(batch.ok());
  CHECK((*batch)->examples() == 100);
  CHECK((*batch)->Find("node").has_value());
  // Labels by number are other text, but the same examples.
  const auto numbers = world.MustCompile("{roots: train}", "closure: {stop_at: [2, 0]}\n");
  CHECK((*Build(*numbers))->payload_hash() == (*batch)->payload_hash());
  CHECK((*Build(*world.MustCompile("{roots: train}")))->payload_hash() != (*batch)->payload_hash());
}

TEST_CASE("a graph keeps the edges that its folder has unless the pipeline says otherwise",
          "[graph_plan]") {
  const World world;
  for (const char* source : {"{roots: train}", "{graphs: small}"}) {
    const auto plan = world.MustCompile(source);
    CHECK(plan->expand().symmetrization == Symmetrization::kDirected);
    CHECK_FALSE(plan->expand().add_self_edges);
  }
  const auto both = world.MustCompile("{roots: train}", "edges: {symmetrization: bidirectional}\n");
  CHECK(both->expand().symmetrization == Symmetrization::kBidirectional);
  CHECK_FALSE(both->expand().add_self_edges);
}

TEST_CASE("a pipeline over small graphs of a graph dataset has all nodes", "[graph_plan]") {
  const World world;
  const auto batch = Build(*world.MustCompile("{graphs: small}", "shuffle: {seed: 3}\n"));
  REQUIRE(batch.ok());
  CHECK((*batch)->examples() == 10);
  CHECK((*batch)->tensors()[*(*batch)->Find("node")].rows == 400);
}

TEST_CASE("features and targets are named by the pipeline, and are part of its digest",
          "[graph_plan]") {
  const World world;
  const std::string more = "features: [x]\ntargets: [y]\n";
  const auto plan = world.MustCompile("{roots: train}", more);
  const auto batch = Build(*plan);
  INFO(batch.status().message());
  REQUIRE(batch.ok());
  const auto& places = (*batch)->tensors();
  const TensorPlace& features = places[*(*batch)->Find("node_feature/x")];
  CHECK(features.spec.inner == std::vector<std::uint64_t>{2});
  CHECK(features.rows == places[*(*batch)->Find("node")].rows);
  CHECK(places[*(*batch)->Find("target/y")].rows == 100);
  CHECK(plan->facts().fingerprint() != world.MustCompile("{roots: train}")->facts().fingerprint());
  // The order of the names means nothing, and null takes a key away.
  const auto named = [&](const std::string& names) {
    return world.MustCompile("{roots: train}", "targets: " + names + "\n")->facts().fingerprint();
  };
  CHECK(named("[x, y]") == named("[y, x]"));
  CHECK(named("null") == world.MustCompile("{roots: train}")->facts().fingerprint());
  CHECK_THAT(world.Compile("{roots: train}", "features: [z]\n").status().message(),
             Catch::Contains("features: the dataset has no array node_feature/'z'; it has x"));
  CHECK_THAT(world.Compile("{roots: train}", "features: x\n").status().message(),
             Catch::Contains("features: expected a list of texts"));
}

TEST_CASE("the features of edges are what their places look up", "[graph_plan]") {
  const World world;
  for (const char* source : {"{roots: train}", "{graphs: small}"}) {
    const auto plan = world.MustCompile(source,
                                        "edge_features: [w]\n"
                                        "tensors:\n"
                                        "  seen: {lookup: edge, table: edge_feature/w}\n"
                                        "  next: {expr: \"edge + 1\"}\n"
                                        "output: [edge, seen, next, edge_feature/w]\n");
    const auto batch = Build(*plan);
    INFO(batch.status().message());
    REQUIRE(batch.ok());
    const auto bytes = [&](const char* path) {
      return (*batch)->tensor_bytes(*(*batch)->Find(path));
    };
    const auto seen = bytes("seen");
    const auto features = bytes("edge_feature/w");
    CHECK(seen.size() > 12);
    CHECK(std::equal(seen.begin(), seen.end(), features.begin(), features.end()));
    // Operations read the places as int64, however narrow they travel.
    const auto& nodes = plan->computed()->graph().nodes();
    const auto next = std::find_if(nodes.begin(), nodes.end(),
                                   [](const TensorNode& node) { return node.name == "next"; });
    REQUIRE(next != nodes.end());
    CHECK(next->type.dtype == DType::kInt64);
    CHECK(next->type.rows == "edges");
    CHECK((*batch)->tensors()[*(*batch)->Find("edge")].spec.dtype == DType::kUint16);
  }
  CHECK_FALSE((*Build(*world.MustCompile("{roots: train}")))->Find("edge").has_value());
}

TEST_CASE("places and features of edges are refused with added edges, where they are named",
          "[graph_plan]") {
  const World world;
  const auto error = [&](const std::string& source, const std::string& more) {
    return world.Compile(source, more).status().message();
  };
  const std::string rest = "; write edges: {symmetrization: none, add_self_edges: false}";
  for (const std::string edges :
       {"edges: {symmetrization: undirected}\n", "edges: {symmetrization: bidirectional}\n",
        "edges: {add_self_edges: true}\n"}) {
    CHECK(
        error("{roots: train}", edges + "output: [node, edge]\n") ==
        "pipeline:6:9: output: edge: edges that are added to a batch have no place among those of "
        "the dataset" +
            rest);
    CHECK(error("{graphs: small}", edges + "tensors:\n  a: {lookup: edge, table: indices}\n") ==
          "pipeline:7:15: tensors.a.lookup: edge: edges that are added to a batch have no place "
          "among those of the dataset" +
              rest);
    CHECK(error("{roots: train}", edges + "tensors: {a: {expr: \"1 + edge\"}}\n") ==
          "pipeline:6:26: tensors.a.expr: column 5: edge: edges that are added to a batch have no "
          "place among those of the dataset" +
              rest);
    CHECK(error("{roots: train}", edges + "edge_features: [w]\n") ==
          "pipeline:6:16: edge_features: edges that are added to a batch have none" + rest);
  }
}

TEST_CASE("the error in a key that does not suit the dataset has the place of its value",
          "[graph_plan]") {
  const World world;
  const auto error = [&](const std::string& source, const std::string& more) {
    return world.Compile(source, more).status().message();
  };
  CHECK_THAT(error("{roots: none}", ""),
             Catch::StartsWith("pipeline:4:10: source: the dataset has "));
  CHECK_THAT(error("{roots: train}", "closure: {stop_at: [7]}\n"),
             Catch::StartsWith("pipeline:5:20: closure.stop_at: the dataset has no node label 7"));
  CHECK_THAT(error("{roots: train}", "features: [z]\n"),
             Catch::StartsWith("pipeline:5:11: features: the dataset has no array"));
  // An override has no lines.
  PipelineSource pipeline;
  pipeline.yaml = "millrace: 1\ndataset: g\nbatch: {size: 8}\nsource: {roots: train}\n";
  pipeline.overrides = {"targets=[z]"};
  CHECK_THAT(world.library->Compile(pipeline).status().message(),
             Catch::StartsWith("override 'targets=[z]': targets: the dataset has no array"));
}

TEST_CASE("a graph dataset has no files that could be left out", "[graph_plan]") {
  const World world;
  CHECK_THAT(world.Compile("{roots: all}", "exclude: {files: [indices.npy]}\n").status().message(),
             Catch::Contains("exclude.files: a graph dataset has no files that could be left out"));
}

TEST_CASE("an expression over columns leaves examples out", "[graph_plan]") {
  const World world;
  const auto where = [&](const std::string& source, const std::string& text) {
    return world.Compile(source, "filter: {where: \"" + text + "\"}\n");
  };
  const auto all = world.MustCompile("{roots: train}");
  const auto some = where("{roots: train}", "degree > 8 && target.y < 8");
  INFO(some.status().message());
  REQUIRE(some.ok());
  // The same, example by example.
  const Source& source = *all->source();
  std::uint64_t expected = 0;
  for (std::uint64_t id = 0; id < 100; ++id) {
    std::int64_t degree = 0;
    std::int64_t target = 0;
    const ColumnValues wanted[] = {{*source.FindColumn("degree"), {&degree, 1}},
                                   {*source.FindColumn("target.y"), {&target, 1}}};
    source.ReadColumns(ExampleId(id), wanted);
    const bool passes = degree > 8 && target < 8;
    expected += passes ? 1 : 0;
    CHECK((*some)->Selects(ExampleId(id)) == passes);
  }
  CHECK(expected > 0);
  CHECK(expected < 100);
  CHECK((*some)->counts().selected == expected);
  CHECK((*some)->counts().filtered == 100 - expected);
  CHECK((*some)->facts().order_fingerprint() != all->facts().order_fingerprint());
  // Floats, integers and constants are conditions too.
  CHECK((*where("{roots: train}", "degree * 0.0"))->counts().selected == 0);
  CHECK((*where("{roots: train}", "degree - degree"))->counts().selected == 0);
  CHECK((*where("{roots: train}", "1"))->counts().selected == 100);
  CHECK((*where("{graphs: small}", "nodes == 40 && edges > 1"))->counts().selected == 10);
}

TEST_CASE("an expression over a column that is not there names those that are", "[graph_plan]") {
  const World world;
  const auto error = [&](const std::string& text) {
    return world.Compile("{roots: train}", "filter: {where: \"" + text + "\"}\n")
        .status()
        .message();
  };
  CHECK_THAT(
      error("hops > 3"),
      Catch::Contains("filter.where: column 1: ") &&
          Catch::Contains(
              "the source has the columns node, degree, node_label, target.y, and nodes, edges"));
  CHECK_THAT(error("degree >"), Catch::Contains("filter.where: column 9: "));
}

TEST_CASE("an override takes the features of a pipeline away", "[graph_plan]") {
  const World world;
  PipelineSource pipeline;
  pipeline.yaml =
      "millrace: 1\ndataset: g\nsource: {roots: train}\nfeatures: [x]\n"
      "batch: {size: 8, remainder: keep}\n";
  pipeline.overrides = {"features=null"};
  const auto plan = world.library->Compile(pipeline);
  REQUIRE(plan.ok());
  CHECK((*plan)->facts().fingerprint() ==
        world.MustCompile("{roots: train}")->facts().fingerprint());
}

TEST_CASE("a hash split of roots goes by node", "[graph_plan]") {
  const World world;
  std::uint64_t selected = 0;
  for (const std::string take : {"0", "1"}) {
    const auto plan = world.MustCompile(
        "{roots: all}", "split: {method: hash, proportions: [3, 1], take: " + take + "}\n");
    CHECK(plan->counts().selected > 50);
    selected += plan->counts().selected;
  }
  CHECK(selected == 400);
}

TEST_CASE("examples of one node have one label of a hash split", "[graph_plan]") {
  const World world;
  const auto plan = world.MustCompile("{roots: twice}",
                                      "split: {method: hash, proportions: [1, 1], take: [0, 1]}\n");
  const Source& source = *plan->source();
  std::map<std::int64_t, std::set<std::uint32_t>> labels;
  for (std::uint64_t id = 0; id < source.examples(); ++id) {
    std::int64_t node = 0;
    const ColumnValues wanted[] = {{*source.FindColumn("node"), {&node, 1}}};
    source.ReadColumns(ExampleId(id), wanted);
    labels[node].insert(plan->SplitLabel(ExampleId(id)));
  }
  CHECK(labels.size() == 40);
  std::set<std::uint32_t> all;
  for (const auto& [node, of_node] : labels) {
    CHECK(of_node.size() == 1);
    all.insert(of_node.begin(), of_node.end());
  }
  CHECK(all == std::set<std::uint32_t>{0, 1});
}

TEST_CASE("closures go depth first if the pipeline says so", "[graph_plan]") {
  const World world;
  const auto nodes = [&](const std::string& order) {
    const auto plan = world.MustCompile("{roots: train}", "closure: {order: " + order + "}\n");
    const auto scratch = plan->NewScratch();
    const ExampleId first(1);
    const auto batch = *plan->BatchOf({&first, 1}, 0, *scratch);
    std::vector<std::int64_t> values;
    const std::size_t tensor = *batch->Find("node");
    for (std::size_t i = 0; i < batch->tensors()[tensor].rows; ++i) {
      values.push_back(batch->ValueAt(tensor, i));
    }
    return values;
  };
  std::vector<std::int64_t> breadth = nodes("bfs");
  std::vector<std::int64_t> depth = nodes("dfs");
  CHECK(breadth.size() > 20);
  CHECK(breadth.front() == depth.front());
  CHECK(breadth != depth);
  std::sort(breadth.begin(), breadth.end());
  std::sort(depth.begin(), depth.end());
  CHECK(breadth == depth);
}

TEST_CASE("edges may be delivered without nodes", "[graph_plan]") {
  const World world;
  for (const char* output :
       {"[edge]", "[edge_source, edge_target]", "[edge_feature/w, target/y]"}) {
    const auto plan = world.MustCompile(
        "{roots: train}",
        std::string("edge_features: [w]\ntargets: [y]\noutput: ") + output + "\n");
    const auto batch = Build(*plan);
    INFO(batch.status().message());
    REQUIRE(batch.ok());
    BufferPool pool;
    REQUIRE(plan->computed()->consumer().has_value());
    const auto delivery =
        Delivery::Make(plan->tensors(), *plan->computed()->consumer(), DType::kInt64);
    REQUIRE(delivery.ok());
    const auto delivered = Expand(**batch, *delivery, pool);
    INFO(delivered.status().message());
    REQUIRE(delivered.ok());
    CHECK((*delivered)->Find("edge_source") != nullptr);
    CHECK((*delivered)->Find("edge_splits") != nullptr);
    for (const char* path : {"node", "node_label", "root"}) {
      CHECK((*delivered)->Find(path) == nullptr);
    }
  }
}

TEST_CASE("a pipeline over a list that is not there names those that are", "[graph_plan]") {
  const World world;
  CHECK_THAT(world.Compile("{roots: valid}").status().message(),
             Catch::Contains("no list roots/'valid'; it has train, twice"));
  CHECK_THAT(world.Compile("roots").status().message(), Catch::Contains("roots needs a value"));
}

TEST_CASE("a damaged array ends its plans, with file and array", "[graph_plan]") {
  InstallSigbusGuard();
  const World world;
  const auto plan = world.MustCompile("{roots: train}");
  std::filesystem::resize_file(world.dir / "graph/indices.npy", 200);
  CHECK(world.library->CheckFiles({}));
  CHECK_THAT(Build(*plan).status().message(), Catch::Contains("indices.npy (array indices)"));
  // All arrays are needed, so nobody is told to exclude a file.
  const Status again = world.Compile("{roots: train}").status();
  CHECK(again.code() == StatusCode::kDataLoss);
  CHECK_THAT(again.message(), Catch::Contains("dataset 'g': indices.npy (array indices)") &&
                                  Catch::Contains("put the file back") &&
                                  !Catch::Contains("exclude"));
}

}  // namespace
}  // namespace millrace::test
