#include "server/daemon/column_adapters.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>

#include "server/catalog/product_kinds.h"
#include "server/daemon/plan_adapters.h"
#include "server/kinds/graph/generator/graph_generator.h"
#include "tests/support/dataset_fixture.h"

namespace millrace::test {
namespace {

using Catch::Contains;

const std::string kReadsNodes =
    "millrace: 1\ndataset: d\nsource: {roots: all}\nclosure: {max_subgraph_size: 30}\n"
    "filter: {where: \"nodes + edges > 3\"}\nbatch: {size: 8}\n";

v1::PipelineText PipelineOf(const std::string& yaml) {
  v1::PipelineText text;
  text.set_yaml(yaml);
  return text;
}

/// The libraries of a dispatcher and of a worker, over one dataset of 600 nodes.
struct Fleet {
  Fleet() {
    GraphGeneratorReport report;
    REQUIRE(GenerateGraph(dir / "data", {.nodes = 600}, &report).ok());
    dispatcher = Make("dispatcher", kept);
    worker = Make("worker", std::make_shared<FetchedColumns>(
                                [](const ColumnKey&) { return NotFound("not kept here"); },
                                MakeNullLogger()));
  }
  std::shared_ptr<PlanLibrary> Make(const std::string& name,
                                    std::shared_ptr<ColumnProvider> columns) const {
    PlanLibraryOptions options;
    options.kinds = ProductKinds();
    options.datasets["d"] = {dir / "data", dir / name / "index", {}};
    options.columns = std::move(columns);
    return std::make_shared<PlanLibrary>(options, MakeNullLogger());
  }

  TempDir dir;
  std::shared_ptr<KeptColumns> kept = std::make_shared<KeptColumns>(MakeNullLogger());
  std::shared_ptr<PlanLibrary> dispatcher;
  std::shared_ptr<PlanLibrary> worker;
};

TEST_CASE("a dispatcher says what a plan lacks, and compiles it when it was measured",
          "[adapters][columns]") {
  const Fleet f;
  const auto compiler = MakePlanCompiler(f.dispatcher, false, f.kept);
  const auto provider = MakePlanProvider(f.worker);
  const v1::PipelineText text = PipelineOf(kReadsNodes);
  const Status lacks = compiler->Compile(text).status();
  CHECK(lacks.code() == StatusCode::kUnavailable);
  auto want = compiler->MissingColumns(text);
  REQUIRE(want);
  CHECK(want->set.dataset() == "d");
  CHECK(want->set.examples() == 600);
  REQUIRE(want->set.columns_size() == 2);
  CHECK(want->set.columns(0) == "edges");
  CHECK(want->set.columns(1) == "nodes");
  CHECK(want->measured.empty());

  const auto measurer = provider->NewMeasurer(want->set, text);
  INFO(measurer.status().message());
  REQUIRE(measurer.ok());
  const auto keeper = compiler->column_keeper();
  for (const std::uint64_t first : {0, 256, 512}) {
    v1::Measured measured;
    *measured.mutable_set() = want->set;
    measured.mutable_run()->set_first(first);
    measured.mutable_run()->set_count(std::min<std::uint64_t>(256, 600 - first));
    auto columns = (*measurer)->Measure(measured.run());
    REQUIRE(columns.ok());
    for (auto& column : *columns) *measured.add_columns() = column;
    CHECK(keeper->Keep(measured).ok());
    want = compiler->MissingColumns(text);
    REQUIRE(want);
    CHECK(want->measured.size() == first / 256 + 1);
  }
  CHECK(keeper->Finish(want->set).ok());
  CHECK_FALSE(compiler->MissingColumns(text));
  const auto facts = compiler->Compile(text);
  REQUIRE(facts.ok());

  // They are the values that one process alone measures.
  const auto alone = f.Make("alone", nullptr)->Compile(PipelineSource{.yaml = kReadsNodes});
  REQUIRE(alone.ok());
  v1::GetColumnRequest request;
  request.set_dataset_digest(want->set.dataset_digest());
  request.set_operations(want->set.operations());
  request.set_column("nodes");
  const auto file = keeper->File(request);
  REQUIRE(file.ok());
  const ColumnKey key{*Digest128::FromHex(want->set.dataset_digest()),
                      *Digest128::FromHex(want->set.operations()), "nodes"};
  const auto of_alone = ReadColumn(f.dir / "alone" / "index.columns", key);
  REQUIRE(of_alone.ok());
  CHECK(EncodeColumn(key, *of_alone).size() == (*file)->size());
  CHECK(std::memcmp(EncodeColumn(key, *of_alone).data(), (*file)->data(), (*file)->size()) == 0);
}

TEST_CASE("a plan that reads no measured column lacks none", "[adapters][columns]") {
  const Fleet f;
  const auto compiler = MakePlanCompiler(f.dispatcher, false, f.kept);
  const auto text = PipelineOf(
      "millrace: 1\ndataset: d\nsource: {roots: all}\nclosure: {max_subgraph_size: 30}\n"
      "batch: {size: 8}\n");
  CHECK(compiler->Compile(text).ok());
  CHECK_FALSE(compiler->MissingColumns(text));
  CHECK_FALSE(compiler->MissingColumns(PipelineOf("no pipeline")));
}

TEST_CASE("a worker measures only the source that it was asked for", "[adapters][columns]") {
  const Fleet f;
  const auto provider = MakePlanProvider(f.worker);
  const v1::PipelineText text = PipelineOf(kReadsNodes);
  const auto want = MakePlanCompiler(f.dispatcher, false, f.kept)->MissingColumns(text);
  REQUIRE(want);
  v1::ColumnSet set = want->set;
  SECTION("another dataset") {
    set.set_dataset_digest(std::string(32, '0'));
    CHECK_FALSE(provider->NewMeasurer(set, text).ok());
  }
  SECTION("other operations") {
    set.set_operations(std::string(32, '0'));
    CHECK_FALSE(provider->NewMeasurer(set, text).ok());
  }
  SECTION("another column") {
    set.add_columns("weight");
    const Status refused = provider->NewMeasurer(set, text).status();
    CHECK(refused.code() == StatusCode::kFailedPrecondition);
    CHECK_THAT(refused.message(), Contains("weight"));
  }
  SECTION("examples that there are not") {
    v1::ExampleRun run;
    run.set_first(512);
    run.set_count(256);
    const auto measurer = provider->NewMeasurer(set, text);
    REQUIRE(measurer.ok());
    CHECK((*measurer)->Measure(run).status().code() == StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace millrace::test
