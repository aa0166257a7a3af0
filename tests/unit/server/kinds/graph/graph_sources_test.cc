// Examples of graph datasets, built without a plan.
#include "server/kinds/graph/graph_sources.h"

#include <catch2/catch.hpp>

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "common/batch/arena.h"
#include "common/batch/batch.h"
#include "common/batch/batch_writer.h"
#include "common/transport/convert/table_writer.h"
#include "server/files/sigbus_guard.h"
#include "server/kinds/graph/generator/graph_generator.h"
#include "server/kinds/graph/graph_parts.h"
#include "server/sampling/closure.h"
#include "server/sampling/closure_parts.h"
#include "server/source/order_parts.h"
#include "server/source/plan_parts.h"
#include "server/source/source.h"
#include "tests/support/skip.h"
#include "tests/unit/server/kinds/graph/graph_folder.h"
#include "tests/unit/server/kinds/graph/graph_source_fixture.h"

namespace millrace {
namespace {

using Catch::Contains;
using test::Build;
using test::Column;
using test::Make;
using test::MustMake;
using test::Numbers;
using test::Parts;
using test::SmallGraphFolder;
using test::Values;

TEST_CASE("an example of a list of roots is the closure of its node", "[graph_sources]") {
  const SmallGraphFolder folder;
  REQUIRE(folder.Seal().ok());
  BufferPool pool;
  const auto source = MustMake(folder.dir.path(), Parts("roots", "some"));
  CHECK(source->examples() == 3);
  const auto batch = *Build(*source, {0, 1, 2}, pool);
  CHECK(Values(*batch, "node") == Numbers{2, 0, 1, 2, 3, 2});
  CHECK(Values(*batch, "node_label") == Numbers{2, 0, 1, 2, 1, 2});
  CHECK(Values(*batch, "node_splits") == Numbers{0, 1, 5, 6});
  // Edges are grouped by label.
  CHECK(Values(*batch, "edge_source") == Numbers{0, 0, 0, 2, 0, 1, 0});
  CHECK(Values(*batch, "edge_target") == Numbers{0, 1, 2, 2, 1, 3, 0});
  CHECK(Values(*batch, "edge_label") == Numbers{0, 0, 0, 0, 1, 1, 0});
  CHECK(Values(*batch, "edge_splits") == Numbers{0, 1, 6, 7});
  CHECK(Values(*batch, "root") == Numbers{0, 0, 0});
  CHECK(Values(*batch, "example_id") == Numbers{0, 1, 2});
}

TEST_CASE("the list all has every node unless there is such a list", "[graph_sources]") {
  SmallGraphFolder folder;
  REQUIRE(folder.Seal().ok());
  CHECK(MustMake(folder.dir.path(), Parts("roots", "all"))->examples() == 4);
  folder.Add<std::int32_t>("roots/all", DType::kInt32, {3});
  REQUIRE(folder.Seal().ok());
  CHECK(MustMake(folder.dir.path(), Parts("roots", "all"))->examples() == 1);
}

TEST_CASE("columns of roots are read without building them", "[graph_sources]") {
  const SmallGraphFolder folder;
  REQUIRE(folder.Seal().ok());
  const auto source = MustMake(folder.dir.path(), Parts("roots", "some"));
  CHECK(Column(*source, "node") == Numbers{2, 0, 2});
  CHECK(Column(*source, "degree") == Numbers{1, 3, 1});
  CHECK(Column(*source, "node_label") == Numbers{2, 0, 2});
  CHECK(Column(*source, "target.y") == Numbers{7, 8, 9});
  CHECK(source->facts().split_column == "node");
  CHECK(source->CheckIntact().ok());
}

TEST_CASE("targets that are columns are those that the pipeline's targets would be",
          "[graph_sources]") {
  SmallGraphFolder folder;
  folder.Add<std::uint8_t>("targets/some/known", DType::kBool, {1, 0, 1});
  folder.Add<float>("targets/some/score", DType::kFloat32, {1, 2, 3});
  folder.Add<std::int16_t>("targets/some/pair", DType::kInt16, {1, 2, 3, 4, 5, 6}, {3, 2});
  // Of the roots. Those that the list has go before them, whatever their type.
  folder.Add<std::int8_t>("node_feature/class", DType::kInt8, {10, -11, 12, 13});
  folder.Add<std::int8_t>("node_feature/y", DType::kInt8, {1, 1, 1, 1});
  folder.Add<std::int8_t>("node_feature/score", DType::kInt8, {1, 1, 1, 1});
  REQUIRE(folder.Seal().ok());
  const auto source = MustMake(folder.dir.path(), Parts("roots", "some"));
  CHECK(ColumnNames(*source) == std::vector<std::string>{"node", "degree", "node_label",
                                                      "target.class", "target.known", "target.y"});
  CHECK(Column(*source, "target.class") == Numbers{12, 10, 12});
  CHECK(Column(*source, "target.known") == Numbers{1, 0, 1});
  CHECK(Column(*source, "target.y") == Numbers{7, 8, 9});
  const auto all = MustMake(folder.dir.path(), Parts("roots", "all"));
  CHECK(Column(*all, "target.class") == Numbers{10, -11, 12, 13});
  // A small graph has no root.
  CHECK(ColumnNames(*MustMake(folder.dir.path(), Parts("graphs", "parts"))) ==
        std::vector<std::string>{"node", "nodes", "edges"});
}

TEST_CASE("only targets of one integer are columns", "[graph_sources]") {
  SmallGraphFolder folder;
  folder.Add<float>("targets/some/real", DType::kFloat32, {0.5, 1, 2});
  folder.Add<std::uint8_t>("targets/some/flag", DType::kBool, {0, 1, 1});
  folder.Add<std::int64_t>("targets/some/pair", DType::kInt64, {1, 2, 3, 4, 5, 6}, {3, 2});
  folder.Add<std::int64_t>("targets/some/column", DType::kInt64, {1, 2, 3}, {3, 1});
  folder.Add<std::uint8_t>("targets/some/class", DType::kUint8, {1, 2, 3});
  folder.Add<std::uint8_t>("targets/parts/size", DType::kUint8, {2, 0, 2});
  REQUIRE(folder.Seal().ok());
  CHECK(ColumnNames(*MustMake(folder.dir.path(), Parts("roots", "some"))) ==
        std::vector<std::string>{"node", "degree", "node_label", "target.class", "target.flag",
                                 "target.y"});
  CHECK(ColumnNames(*MustMake(folder.dir.path(), Parts("graphs", "parts"))) ==
        std::vector<std::string>{"node", "nodes", "edges", "target.size"});
  CHECK(ColumnNames(*MustMake(folder.dir.path(), Parts("roots", "all"))) ==
        std::vector<std::string>{"node", "degree", "node_label"});
}

TEST_CASE("an example of a list of graphs is a whole small graph", "[graph_sources]") {
  test::GraphFolder folder(4, 5);
  folder.Add<std::int64_t>("indptr", DType::kInt64, {0, 2, 3, 4, 5});
  folder.Add<std::int32_t>("indices", DType::kInt32, {1, 0, 0, 3, 3});
  folder.Add<std::int64_t>("graphs/parts", DType::kInt64, {0, 2, 2, 4});
  folder.Add<std::int8_t>("targets/parts/y", DType::kInt8, {5, -6, 7});
  REQUIRE(folder.Seal().ok());
  BufferPool pool;
  const auto source = MustMake(folder.dir.path(), Parts("graphs", "parts"));
  const auto batch = *Build(*source, {2, 1, 0}, pool);
  CHECK(Values(*batch, "node") == Numbers{2, 3, 0, 1});
  CHECK(Values(*batch, "node_splits") == Numbers{0, 2, 2, 4});
  CHECK(Values(*batch, "edge_source") == Numbers{0, 1, 0, 0, 1});
  CHECK(Values(*batch, "edge_target") == Numbers{1, 1, 1, 0, 0});
  CHECK(Values(*batch, "edge_splits") == Numbers{0, 2, 2, 5});
  CHECK_FALSE(batch->Find("root").has_value());
  CHECK_FALSE(batch->Find("node_label").has_value());
  CHECK(Column(*source, "nodes") == Numbers{2, 0, 2});
  CHECK(Column(*source, "edges") == Numbers{3, 0, 2});
  CHECK(Column(*source, "target.y") == Numbers{5, -6, 7});
}

TEST_CASE("edges of small graphs go their way, whatever the rows are", "[graph_sources]") {
  test::GraphFolder folder(3, 2);
  folder.description.rows = GraphRows::kTarget;
  folder.Add<std::int64_t>("indptr", DType::kInt64, {0, 2, 2, 2});
  folder.Add<std::int32_t>("indices", DType::kInt32, {1, 2});
  folder.Add<std::int64_t>("graphs/all", DType::kInt64, {0, 3});
  REQUIRE(folder.Seal().ok());
  BufferPool pool;
  const auto batch = *Build(*MustMake(folder.dir.path(), Parts("graphs", "all")), {0}, pool);
  CHECK(Values(*batch, "edge_source") == Numbers{1, 2});
  CHECK(Values(*batch, "edge_target") == Numbers{0, 0});
}

TEST_CASE("the golden list that repeats nodes has an example for each row", "[graph_sources]") {
  const auto dir = std::filesystem::path(test::SharedDirOrSkip()) / "golden-graphs/graphs/tiny";
  const auto dataset = *GraphDataset::Open(dir);
  const GraphArray& list = *dataset->Find("roots/twice");
  const auto source = MustMake(dir, Parts("roots", "twice"));
  BufferPool pool;
  const auto batch = *Build(*source, {0, 1, 2, 3, 4}, pool);
  const Numbers splits = Values(*batch, "node_splits");
  const Numbers nodes = Values(*batch, "node");
  for (std::size_t row = 0; row < 5; ++row) {
    CHECK(nodes[static_cast<std::size_t>(splits[row])] ==
          static_cast<std::int64_t>(list.NumberAt(row)));
  }
  CHECK(Values(*batch, "example_id") == Numbers{0, 1, 2, 3, 4});
}

TEST_CASE("small graphs without nodes may stand anywhere", "[graph_sources]") {
  test::GraphFolder folder(2, 1);
  folder.Add<std::int64_t>("indptr", DType::kInt64, {0, 1, 1});
  folder.Add<std::int32_t>("indices", DType::kInt32, {1});
  folder.Add<std::int64_t>("graphs/parts", DType::kInt64, {0, 0, 2, 2});
  REQUIRE(folder.Seal().ok());
  BufferPool pool;
  const auto source = MustMake(folder.dir.path(), Parts("graphs", "parts"));
  const auto batch = *Build(*source, {2, 1, 0}, pool);
  CHECK(Values(*batch, "node_splits") == Numbers{0, 0, 2, 2});
  CHECK(Column(*source, "edges") == Numbers{0, 1, 0});
  CHECK(source->CheckIntact().ok());
}

TEST_CASE("rows of a small graph that fall are named", "[graph_sources]") {
  test::GraphFolder folder(5, 5);
  folder.Add<std::int64_t>("indptr", DType::kInt64, {0, 4, 5, 0, 1, 5});
  folder.Add<std::int32_t>("indices", DType::kInt32, {1, 1, 1, 1, 1});
  folder.Add<std::int64_t>("graphs/parts", DType::kInt64, {1, 4});
  REQUIRE(folder.Seal().ok());
  BufferPool pool;
  const auto source = MustMake(folder.dir.path(), Parts("graphs", "parts"));
  CHECK_THAT(Build(*source, {0}, pool).status().message(),
             Contains("indptr.npy (array indptr): number 4 is below an earlier one"));
  CHECK(Column(*source, "edges") == Numbers{0});
  CHECK(source->CheckIntact().code() == StatusCode::kDataLoss);
}

TEST_CASE("an example with too many edges is dropped", "[graph_sources]") {
  constexpr std::uint64_t kEdges = kMaxExampleEdges + 1;
  test::GraphFolder folder(2, kEdges);
  folder.Add<std::int64_t>("indptr", DType::kInt64, {0, static_cast<std::int64_t>(kEdges), kEdges});
  // All edges lead to node 0. The file has no blocks.
  test::WriteText(folder.dir / "indices.bin", "");
  std::filesystem::resize_file(folder.dir / "indices.bin", kEdges * sizeof(std::int32_t));
  folder.Add<std::int64_t>("graphs/parts", DType::kInt64, {0, 1, 2});
  GraphSealer sealer(folder.dir.path(), folder.description);
  REQUIRE(sealer.Add("indices", {.path = "indices.bin", .type = ArrayType{DType::kInt32, {kEdges}}})
              .ok());
  REQUIRE(sealer.Seal().ok());
  BufferPool pool;
  for (const char* const source : {"roots", "graphs"}) {
    const auto made = MustMake(folder.dir.path(),
                               Parts(source, source == std::string("roots") ? "all" : "parts"));
    const auto batch = *Build(*made, {0, 1}, pool);
    REQUIRE(batch->info().dropped.size() == 1);
    CHECK(batch->info().dropped[0].reason == DropReason::kTooLarge);
    CHECK(batch->info().dropped[0].id == ExampleId(0));
    CHECK(Values(*batch, "example_id") == Numbers{1});
  }
}

TEST_CASE("a small graph with too many nodes is dropped", "[graph_sources]") {
  constexpr std::int64_t kMost = kMaxExampleNodes;
  test::GraphFolder folder(kMost + 1, 0);
  folder.Add<std::int64_t>("indptr", DType::kInt64, std::vector<std::int64_t>(kMost + 2, 0));
  folder.Add<std::int32_t>("indices", DType::kInt32, {});
  folder.Add<std::int64_t>("graphs/large", DType::kInt64, {0, kMost + 1});
  folder.Add<std::int64_t>("graphs/parts", DType::kInt64, {0, kMost, kMost + 1});
  REQUIRE(folder.Seal().ok());
  BufferPool pool;
  const auto large = *Build(*MustMake(folder.dir.path(), Parts("graphs", "large")), {0}, pool);
  CHECK(large->examples() == 0);
  CHECK(large->info().dropped.size() == 1);
  const auto parts = *Build(*MustMake(folder.dir.path(), Parts("graphs", "parts")), {0, 1}, pool);
  CHECK(Values(*parts, "node_splits") == Numbers{0, kMost, kMost + 1});
}

TEST_CASE("an edge that leaves its small graph is named", "[graph_sources]") {
  const SmallGraphFolder folder;
  REQUIRE(folder.Seal().ok());
  BufferPool pool;
  const auto source = MustMake(folder.dir.path(), Parts("graphs", "parts"));
  const Status status = Build(*source, {0}, pool).status();
  CHECK(status.code() == StatusCode::kDataLoss);
  CHECK_THAT(status.message(), Contains("indices.npy (array indices): number 1 is 2 in the row of "
                                        "node 0, whose small graph has the nodes 0 to below 2"));
}

TEST_CASE("closures stop at labels by number or by name", "[graph_sources]") {
  const SmallGraphFolder folder;
  REQUIRE(folder.Seal().ok());
  BufferPool pool;
  PlanParts parts = Parts("roots", "some");
  const auto nodes = [&](ParamValue stop_at) {
    parts.Edit<GraphClosurePart>().stop_at = std::move(stop_at);
    return Values(**Build(*MustMake(folder.dir.path(), parts), {1}, pool), "node");
  };
  CHECK(nodes({}) == Numbers{0, 1, 2, 3});
  CHECK(nodes(std::vector<std::int64_t>{1}) == Numbers{0, 1, 2});
  CHECK(nodes(std::vector<std::string>{"z", "y"}) == Numbers{0, 1, 2});
  const auto error = [&](ParamValue stop_at) {
    parts.Edit<GraphClosurePart>().stop_at = std::move(stop_at);
    return Make(folder.dir.path(), parts).status().message();
  };
  CHECK_THAT(error(std::vector<std::int64_t>{3}),
             Contains("stop_at: the dataset has no node label 3"));
  CHECK_THAT(error(std::vector<std::string>{"w"}), Contains("has no node label 'w'"));
  // Without labels there is none, not even the first.
  test::GraphFolder plain(1, 0);
  plain.Add<std::int64_t>("indptr", DType::kInt64, {0, 0});
  plain.Add<std::int32_t>("indices", DType::kInt32, {});
  REQUIRE(plain.Seal().ok());
  PlanParts stops = Parts("roots", "all");
  stops.Edit<GraphClosurePart>().stop_at = std::vector<std::int64_t>{0};
  CHECK_THAT(Make(plain.dir.path(), stops).status().message(), Contains("no node label 0"));
}

TEST_CASE("all kernels read the same batches of a generated graph", "[graph_sources]") {
  const test::TempDir dir;
  GraphGeneratorReport report;
  REQUIRE(
      GenerateGraph(dir / "g", {.nodes = 3000, .node_labels = 5, .edge_labels = 3}, &report).ok());
  BufferPool pool;
  Numbers rows(300);
  std::iota(rows.begin(), rows.end(), 0);
  std::vector<Digest128> digests;
  for (const ClosureKernel kernel :
       {ClosureKernel::kArray, ClosureKernel::kTable, ClosureKernel::kInTurns}) {
    PlanParts parts = Parts("roots", "train");
    parts.Edit<ClosurePart>().kernel = kernel;
    parts.Edit<ClosurePart>().options.max_subgraph_size = 200;
    parts.Edit<GraphClosurePart>().stop_at = std::vector<std::int64_t>{0, 2};
    const auto batch = Build(*MustMake(dir / "g", parts), rows, pool);
    INFO(batch.status().message());
    REQUIRE(batch.ok());
    digests.push_back((*batch)->digest());
  }
  CHECK(digests[0] == digests[1]);
  CHECK(digests[0] == digests[2]);
}

TEST_CASE("a list that is not there is refused with those that are", "[graph_sources]") {
  const SmallGraphFolder folder;
  REQUIRE(folder.Seal().ok());
  CHECK(Make(folder.dir.path(), Parts("roots", "none")).status().message() ==
        "source: the dataset has no list roots/'none'; it has some");
  CHECK_THAT(Make(folder.dir.path(), Parts("graphs", "all")).status().message(),
             Contains("graphs/'all'; it has parts"));
}

TEST_CASE("a bad root is found when columns or examples are read", "[graph_sources]") {
  const SmallGraphFolder folder;
  REQUIRE(folder.Seal().ok());
  test::OverwriteValue<std::uint32_t>(folder.dir / "roots/some.npy", 1, 4);
  BufferPool pool;
  const auto source = MustMake(folder.dir.path(), Parts("roots", "some"));
  CHECK(source->CheckIntact().ok());
  CHECK(Column(*source, "degree") == Numbers{1, 0, 1});
  CHECK_THAT(source->CheckIntact().message(), Contains("roots/some.npy (array roots/some)"));
  CHECK_THAT(Build(*source, {1}, pool).status().message(),
             Contains("roots/some.npy (array roots/some): number 1 is 4"));
}

TEST_CASE("a bad label of a node is found when its example is read", "[graph_sources]") {
  const SmallGraphFolder folder;
  REQUIRE(folder.Seal().ok());
  test::OverwriteValue<std::int16_t>(folder.dir / "node_label.npy", 3, 3);
  BufferPool pool;
  const auto source = MustMake(folder.dir.path(), Parts("roots", "all"));
  CHECK(Build(*source, {2}, pool).ok());
  CHECK_THAT(Build(*source, {0}, pool).status().message(),
             Contains("node_label.npy (array node_label): number 3 is 3, expected 0 to below 3"));
}

TEST_CASE("a file that is cut off while it is in use spoils batches, not the process",
          "[graph_sources]") {
  InstallSigbusGuard();
  const SmallGraphFolder folder;
  REQUIRE(folder.Seal().ok());
  PlanParts parts = Parts("roots", "some");
  const auto dataset = *GraphDataset::Open(folder.dir.path());
  const auto source = *GraphSources().Make("roots", dataset, parts);
  std::filesystem::resize_file(folder.dir / "indices.npy", 140);
  dataset->CheckFiles();
  CHECK(source->CheckIntact().code() == StatusCode::kDataLoss);
  CHECK_THAT(source->CheckIntact().message(), Contains("indices.npy (array indices)"));
}

/// A table of a source as it is sent.
v1::Table TableOf(const Source& source, std::size_t number) {
  const TableSpec spec = source.table_specs()[number].table;
  TableWriter writer(spec);
  source.tables()->WriteTable(number, writer);
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream out(&stream);
    writer.BeginWriting(&out);
    source.tables()->WriteTable(number, writer);
  }
  v1::Table table;
  REQUIRE(table.ParseFromString(bytes));
  return table;
}

TEST_CASE("names of labels are tables, which the tensors of labels refer to", "[graph_sources]") {
  SmallGraphFolder folder;
  REQUIRE(folder.Seal().ok());
  const auto source = MustMake(folder.dir.path(), Parts("roots", "some"));
  const std::vector<SourceTableSpec> specs = source->table_specs();
  REQUIRE(specs.size() == 2);
  CHECK(specs[0].table == TableSpec{"node_labels", 3, {{"name", ColumnType::kText}}, {}});
  CHECK(specs[0].tensors == std::vector<std::string>{"node_label"});
  CHECK(specs[1].table.name == "edge_labels");
  CHECK(TableOf(*source, 0).columns(0).text() == "xyz");
  const v1::Table table = TableOf(*source, 1);
  CHECK(table.columns(0).lengths_size() == static_cast<int>(specs[1].table.rows));
  CHECK(table.columns(0).text() == "ab");
  folder.description.node_labels.reset();
  REQUIRE(folder.Seal().ok());
  const auto edges_only = MustMake(folder.dir.path(), Parts("roots", "some"));
  REQUIRE(edges_only->table_specs().size() == 1);
  CHECK(edges_only->table_specs()[0].table.name == "edge_labels");
  CHECK(TableOf(*edges_only, 0).columns(0).text() == "ab");
}

}  // namespace
}  // namespace millrace
