// Columns that are measured, from the building of examples to the plans that go by them.

#include <catch2/catch.hpp>

#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "common/batch/batch.h"
#include "server/catalog/product_kinds.h"
#include "server/plan/columns/column_provider.h"
#include "server/plan/plan_library.h"
#include "server/source/column_file.h"
#include "server/source/order_parts.h"
#include "tests/support/csr_source.h"
#include "tests/support/dataset_fixture.h"

namespace millrace::test {
namespace {

/// A path graph: the closure of node i has n - i nodes. The closures of some roots reach a node
/// without a label, so they cannot be built.
std::shared_ptr<const Source> PathSource(std::uint32_t n, bool unlabelled = false) {
  CsrGraph graph;
  for (std::uint32_t node = 0; node < n; ++node) {
    if (node + 1 < n) graph.targets.push_back(node + 1);
    if (node + 1 < n) graph.edge_labels.push_back(0);
    graph.offsets.push_back(static_cast<std::uint32_t>(graph.targets.size()));
    graph.node_labels.push_back(0);
    graph.is_definition.push_back(false);
    graph.roots.push_back({node});
  }
  if (unlabelled) {
    graph.node_labels[n / 2] = CsrGraph::kUnlabelled;
    graph.is_definition[n / 2] = true;
  }
  return MakeCsrSource(graph, PlanParts());
}

ColumnRequest RequestFor(std::shared_ptr<const Source> source,
                         const std::filesystem::path& folder) {
  ColumnRequest request;
  request.dataset_id = "d";
  request.folders = {folder};
  request.operations = {7, 8};
  request.columns = MeasurableColumns(*source);
  request.source = std::move(source);
  return request;
}

TEST_CASE("nodes, edges and lengths of tensors can be measured", "[columns]") {
  std::vector<std::string> names;
  for (const MeasurableColumn& column : MeasurableColumns(*PathSource(3))) {
    names.push_back(column.name);
  }
  CHECK(std::set<std::string>(names.begin(), names.end()).size() == names.size());
  CHECK(std::find(names.begin(), names.end(), "nodes") != names.end());
  CHECK(std::find(names.begin(), names.end(), "edges") != names.end());
}

TEST_CASE("measured columns are the sizes of the examples", "[columns]") {
  const TempDir dir;
  std::vector<std::uint64_t> progress;
  LocalColumns columns({.threads = 2,
                        .progress =
                            [&](const std::string&, std::uint64_t done, std::uint64_t all) {
                              CHECK(all == 3000);
                              progress.push_back(done);
                            }},
                       MakeNullLogger());
  const auto source = PathSource(3000);
  const auto values = columns.Get(RequestFor(source, dir / "columns"));
  INFO(values.status().message());
  REQUIRE(values.ok());
  REQUIRE(values->at("nodes")->size() == 3000);
  for (std::uint64_t id = 2000; id < 3000; ++id) {
    CHECK(values->at("nodes")->At(id) == static_cast<std::int64_t>(3000 - id));
    CHECK(values->at("edges")->At(id) == static_cast<std::int64_t>(2999 - id));
  }
  CHECK(progress.back() == 3000);

  const auto with = WithColumns(source, *values);
  const std::size_t nodes = *with->FindColumn("nodes");
  std::vector<std::int64_t> read(2);
  const ColumnValues wanted{nodes, read};
  with->ReadColumns(ExampleId(2990), {&wanted, 1});
  CHECK(read == std::vector<std::int64_t>{10, 9});
  CHECK_FALSE(with->Unmeasured(nodes, ExampleId(2990)));
}

TEST_CASE("an example that cannot be built has no value, which reads as 0", "[columns]") {
  const TempDir dir;
  LocalColumns columns({.threads = 1}, MakeNullLogger());
  const auto source = PathSource(40, true);
  const auto values = columns.Get(RequestFor(source, dir / "columns"));
  INFO(values.status().message());
  REQUIRE(values.ok());
  CHECK_FALSE(values->at("nodes")->Has(3));
  CHECK(values->at("nodes")->At(3) == 0);
  CHECK(values->at("nodes")->Has(30));
  const auto with = WithColumns(source, *values);
  CHECK(with->Unmeasured(*with->FindColumn("nodes"), ExampleId(3)));
  CHECK_FALSE(with->Unmeasured(*with->FindColumn("nodes"), ExampleId(30)));
}

TEST_CASE("a filter by a measured column keeps what cannot be built, to be dropped in its place",
          "[columns][plan]") {
  const TempDir dir;
  LocalColumns columns({.threads = 1}, MakeNullLogger());
  const auto source = PathSource(40, true);
  const auto with = WithColumns(source, *columns.Get(RequestFor(source, dir / "columns")));
  PlanParts parts;
  parts.Edit<SourcePart>().name = "csr";
  parts.Edit<FilterPart>().where = "nodes > 10";
  parts.Edit<BatchPart>().size = 4;
  const auto plan = Plan::Compile(parts, {1, 1}, {1, 2}, with);
  INFO(plan.status().message());
  REQUIRE(plan.ok());
  CHECK((*plan)->Selects(ExampleId(3)));
  CHECK((*plan)->Selects(ExampleId(29)));
  CHECK_FALSE((*plan)->Selects(ExampleId(30)));
  const auto scratch = (*plan)->NewScratch();
  const auto batch = *(*plan)->Batch(0, {0, 4}, *scratch);
  CHECK(batch->info().dropped.size() == 4);
}

TEST_CASE("a column is measured once, and again if its file is damaged", "[columns]") {
  const TempDir dir;
  int measured = 0;
  LocalColumns columns(
      {.threads = 1, .progress = [&](const auto&, auto done, auto) { measured += done == 50; }},
      MakeNullLogger());
  const ColumnRequest request = RequestFor(PathSource(50), dir / "columns");
  REQUIRE(columns.Get(request).ok());
  CHECK(measured == 1);
  REQUIRE(columns.Get(request).ok());
  CHECK(measured == 1);
  const std::string file =
      ColumnKey{request.source->digest(), request.operations, "nodes"}.FileName();
  std::filesystem::resize_file(dir / "columns" / file, 20);
  CHECK(columns.Get(request)->at("nodes")->At(40) == 10);
  CHECK(measured == 2);
  ColumnRequest other = request;
  other.operations = {7, 9};
  REQUIRE(columns.Get(other).ok());
  CHECK(measured == 3);
}

TEST_CASE("columns that cannot be kept are measured all the same", "[columns]") {
  const TempDir dir;
  std::ofstream(dir / "file") << "no folder";
  LocalColumns columns({.threads = 1}, MakeNullLogger());
  CHECK(columns.Get(RequestFor(PathSource(50), dir / "file" / "columns"))->at("nodes")->At(0) ==
        50);
}

TEST_CASE("measuring ends when it is asked to", "[columns]") {
  const TempDir dir;
  std::stop_source stop;
  stop.request_stop();
  LocalColumns columns({.threads = 2, .stop = stop.get_token()}, MakeNullLogger());
  CHECK(columns.Get(RequestFor(PathSource(50), dir / "columns")).status().code() ==
        StatusCode::kCancelled);
}

TEST_CASE("columns are not measured without files that a pipeline excludes", "[columns]") {
  const TempDir dir;
  LocalColumns columns({.threads = 1}, MakeNullLogger());
  ColumnRequest request = RequestFor(PathSource(50), dir / "columns");
  request.excluded_files = {"a.bin", "b.bin"};
  const Status refused = columns.Get(request).status();
  CHECK(refused.code() == StatusCode::kFailedPrecondition);
  CHECK_THAT(refused.message(), Catch::StartsWith("exclude.files: the columns ") &&
                                    Catch::Contains("good: a.bin, b.bin;"));
  request.excluded_files.clear();
  REQUIRE(columns.Get(request).ok());
  request.excluded_files = {"a.bin"};
  CHECK(columns.Get(request).ok());
}

}  // namespace
}  // namespace millrace::test
