// Plans over graph datasets, from the text of a pipeline to a batch.
#include <catch2/catch.hpp>

#include <filesystem>
#include <numeric>
#include <string>
#include <vector>

#include "common/batch/batch.h"
#include "server/dataset/graph/generator/graph_generator.h"
#include "server/dataset/kinds/product_kinds.h"
#include "server/dataset/source.h"
#include "server/files/sigbus_guard.h"
#include "server/pipeline/plan_library.h"
#include "tests/support/dataset_fixture.h"

namespace millrace::test {
namespace {

/// 400 nodes in 10 small graphs.
struct World {
  World() {
    GraphGeneratorReport report;
    const GraphGeneratorOptions made = {.nodes = 400,
                                        .features = 2,
                                        .node_labels = 4,
                                        .edge_labels = 2,
                                        .roots = 100,
                                        .graphs = 10};
    REQUIRE(GenerateGraph(dir / "graph", made, &report).ok());
    PlanLibraryOptions options;
    options.kinds = ProductKinds();
    options.datasets["g"].dir = dir / "graph";
    library = std::make_unique<PlanLibrary>(std::move(options), MakeNullLogger());
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
  CHECK((*batch)->graphs() == 100);
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
  CHECK((*batch)->graphs() == 10);
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
  CHECK(plan->fingerprint() != world.MustCompile("{roots: train}")->fingerprint());
  // The order of the names means nothing, and null takes a key away.
  const auto named = [&](const std::string& names) {
    return world.MustCompile("{roots: train}", "targets: " + names + "\n")->fingerprint();
  };
  CHECK(named("[x, y]") == named("[y, x]"));
  CHECK(named("null") == world.MustCompile("{roots: train}")->fingerprint());
  CHECK_THAT(world.Compile("{roots: train}", "features: [z]\n").status().message(),
             Catch::Contains("features: the dataset has no array node_feature/'z'; it has x"));
  CHECK_THAT(world.Compile("{roots: train}", "features: x\n").status().message(),
             Catch::Contains("features: expected a list of names"));
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
    CHECK(((*some)->PlaceOf(0, ExampleId(id)) != Plan::kNoPlace) == passes);
  }
  CHECK(expected > 0);
  CHECK(expected < 100);
  CHECK((*some)->counts().selected == expected);
  CHECK((*some)->counts().filtered == 100 - expected);
  CHECK((*some)->order_fingerprint() != all->order_fingerprint());
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
  CHECK_THAT(error("nodes > 3"),
             Catch::Contains("filter.where: column 1: ") &&
                 Catch::Contains("the source has the columns node, degree, node_label, target.y"));
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
  CHECK((*plan)->fingerprint() == world.MustCompile("{roots: train}")->fingerprint());
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

TEST_CASE("a pipeline over a list that is not there names those that are", "[graph_plan]") {
  const World world;
  CHECK_THAT(world.Compile("{roots: valid}").status().message(),
             Catch::Contains("no list roots/'valid'; it has train"));
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
