// Features and targets: rows of arrays that come with the examples of graph datasets.
#include "server/kinds/graph/gathered_arrays.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/batch/layout/tensor_table.h"
#include "server/files/sigbus_guard.h"
#include "server/kinds/graph/generator/graph_generator.h"
#include "server/kinds/graph/graph_parts.h"
#include "tests/support/skip.h"
#include "tests/unit/server/kinds/graph/graph_folder.h"
#include "tests/unit/server/kinds/graph/graph_source_fixture.h"

namespace millrace {
namespace {

using Catch::Contains;
using test::GraphFolder;
using test::Numbers;
using test::ValuesAs;
using Floats = std::vector<float>;

/// A small graph with arrays of several types.
class FeatureFolder : public test::SmallGraphFolder {
 public:
  FeatureFolder() {
    Add<std::uint8_t>("node_feature/known", DType::kBool, {0, 1, 1, 0});
    Add<std::uint16_t>("edge_feature/w", DType::kBFloat16, {10, 11, 12, 13, 14});
    Add<float>("targets/some/z", DType::kFloat32, {0.5, 1, 1.5, 2, 2.5, 3}, {3, 2});
    Add<std::int8_t>("targets/parts/size", DType::kInt8, {2, -1, 3});
    REQUIRE(Seal().ok());
  }
};

PlanParts PartsWith(const std::string& source, const std::string& list, GraphArraysPart arrays) {
  PlanParts parts = test::Parts(source, list);
  parts.Edit<GraphArraysPart>() = std::move(arrays);
  return parts;
}

std::vector<std::string> Paths(const Source& source) {
  std::vector<std::string> paths;
  for (const TensorSpec& spec : source.tensors()) paths.push_back(spec.path);
  return paths;
}

TEST_CASE("features of nodes and edges and targets come with the examples of a list of roots",
          "[gathered]") {
  const FeatureFolder folder;
  BufferPool pool;
  const auto source = test::MustMake(
      folder.dir.path(),
      PartsWith("roots", "some",
                {.features = {"known", "x"}, .edge_features = {"w"}, .targets = {"x", "y", "z"}}));
  const auto paths = Paths(*source);
  CHECK(std::vector<std::string>(paths.end() - 7, paths.end()) ==
        std::vector<std::string>{"example_id", "target/x", "target/y", "target/z",
                                 "node_feature/known", "node_feature/x", "edge_feature/w"});
  const auto batch = *test::Build(*source, {0, 1}, pool);
  CHECK(test::Values(*batch, "node") == Numbers{2, 0, 1, 2, 3});
  CHECK(ValuesAs<float>(*batch, "node_feature/x") == Floats{4, 5, 0, 1, 2, 3, 4, 5, 6, 7});
  CHECK(ValuesAs<std::uint8_t>(*batch, "node_feature/known") ==
        std::vector<std::uint8_t>{1, 0, 1, 1, 0});
  // Edges are grouped by label, and their features with them.
  CHECK(test::Values(*batch, "edge_label") == Numbers{0, 0, 0, 0, 1, 1});
  CHECK(ValuesAs<std::uint16_t>(*batch, "edge_feature/w") ==
        std::vector<std::uint16_t>{14, 10, 11, 14, 12, 13});
  CHECK(test::Values(*batch, "target/y") == Numbers{7, 8});
  CHECK(ValuesAs<float>(*batch, "target/z") == Floats{0.5, 1, 1.5, 2});
  CHECK(ValuesAs<float>(*batch, "target/x") == Floats{4, 5, 0, 1});  // of the root
}

TEST_CASE("tensors of features have the type of the array, and its rows", "[gathered]") {
  const FeatureFolder folder;
  const auto source = test::MustMake(
      folder.dir.path(),
      PartsWith("roots", "some", {.features = {"x"}, .edge_features = {"w"}, .targets = {"y"}}));
  const auto spec = [&](const std::string& path) {
    return source->tensors()[*FindTensor(source->tensors(), path)];
  };
  const TensorSpec feature = spec("node_feature/x");
  CHECK(feature.dtype == DType::kFloat32);
  CHECK(feature.dimension == "nodes");
  CHECK(feature.splits == "node_splits");
  CHECK(feature.inner == std::vector<std::uint64_t>{2});
  CHECK(spec("edge_feature/w").dtype == DType::kBFloat16);
  CHECK(spec("edge_feature/w").dimension == "edges");
  CHECK(spec("target/y").dtype == DType::kInt64);
  CHECK(spec("target/y").dimension == "batch");
  CHECK(spec("target/y").expansion == Expansion::kKeep);
}

TEST_CASE("features and targets come with small graphs", "[gathered]") {
  GraphFolder folder(4, 5);
  folder.Add<std::int64_t>("indptr", DType::kInt64, {0, 2, 3, 4, 5});
  folder.Add<std::int32_t>("indices", DType::kInt32, {0, 1, 0, 3, 3});
  folder.Add<std::uint8_t>("edge_label", DType::kUint8, {0, 1, 0, 1, 0});
  folder.Add<std::int64_t>("graphs/parts", DType::kInt64, {0, 2, 2, 4});
  folder.Add<double>("node_feature/x", DType::kFloat64, {0, 1, 2, 3});
  folder.Add<std::uint8_t>("edge_feature/w", DType::kUint8, {10, 11, 12, 13, 14});
  folder.Add<float>("targets/parts/y", DType::kFloat32, {0.5, 1.5, 2.5});
  REQUIRE(folder.Seal().ok());
  BufferPool pool;
  const auto source = test::MustMake(
      folder.dir.path(),
      PartsWith("graphs", "parts", {.features = {"x"}, .edge_features = {"w"}, .targets = {"y"}}));
  const auto batch = *test::Build(*source, {2, 1, 0}, pool);
  CHECK(ValuesAs<double>(*batch, "node_feature/x") == std::vector<double>{2, 3, 0, 1});
  CHECK(ValuesAs<std::uint8_t>(*batch, "edge_feature/w") ==
        std::vector<std::uint8_t>{14, 13, 10, 12, 11});
  CHECK(ValuesAs<float>(*batch, "target/y") == Floats{2.5, 1.5, 0.5});
}

TEST_CASE("targets are those of roots, or else of graphs, and only then of all nodes",
          "[gathered]") {
  const auto folder_with = [](bool roots, bool graphs) {
    auto folder = std::make_unique<GraphFolder>(2, 0);
    folder->Add<std::int64_t>("indptr", DType::kInt64, {0, 0, 0});
    folder->Add<std::int32_t>("indices", DType::kInt32, {});
    folder->Add<std::int64_t>("node_feature/y", DType::kInt64, {7, 8});
    folder->Add<std::int64_t>("targets/all/y", DType::kInt64, {5, 6});
    if (roots) folder->Add<std::int64_t>("roots/all", DType::kInt64, {1, 0});
    // As many graphs as nodes.
    if (graphs) folder->Add<std::int64_t>("graphs/all", DType::kInt64, {0, 0, 2});
    REQUIRE(folder->Seal().ok());
    return folder;
  };
  const auto targets_of = [](const GraphFolder& folder, const char* source) {
    const auto made =
        test::MustMake(folder.dir.path(), PartsWith(source, "all", {.targets = {"y"}}));
    BufferPool pool;
    const Numbers values = test::Values(**test::Build(*made, {0, 1}, pool), "target/y");
    CHECK(test::Column(*made, "target.y") == values);
    return values;
  };
  CHECK(targets_of(*folder_with(false, false), "roots") == Numbers{5, 6});
  CHECK(targets_of(*folder_with(true, false), "roots") == Numbers{5, 6});
  CHECK(targets_of(*folder_with(true, true), "roots") == Numbers{5, 6});
  const auto graphs_only = folder_with(false, true);
  CHECK(targets_of(*graphs_only, "roots") == Numbers{7, 8});
  CHECK(targets_of(*graphs_only, "graphs") == Numbers{5, 6});
  const auto both = folder_with(true, true);
  CHECK_FALSE(test::Make(both->dir.path(), PartsWith("graphs", "all", {.targets = {"y"}})).ok());
}

TEST_CASE("rows that are edges into their node give tensors that go the way of the edge",
          "[gathered]") {
  test::SmallGraphFolder folder;
  folder.description.rows = GraphRows::kTarget;
  REQUIRE(folder.Seal().ok());
  BufferPool pool;
  const auto batch =
      *test::Build(*test::MustMake(folder.dir.path(), test::Parts("roots", "some")), {1}, pool);
  CHECK(test::Values(*batch, "edge_source") == Numbers{1, 2, 2, 1, 3});
  CHECK(test::Values(*batch, "edge_target") == Numbers{0, 0, 2, 0, 1});
}

TEST_CASE("an array that is not there is refused with those that are", "[gathered]") {
  const FeatureFolder folder;
  const auto error = [&](const char* source, const char* list, GraphArraysPart arrays) {
    return test::Make(folder.dir.path(), PartsWith(source, list, std::move(arrays)))
        .status()
        .message();
  };
  CHECK(error("roots", "some", {.features = {"z"}}) ==
        "features: the dataset has no array node_feature/'z'; it has known, x");
  CHECK(error("roots", "some", {.edge_features = {"x"}}) ==
        "edge_features: the dataset has no array edge_feature/'x'; it has w");
  CHECK(error("roots", "some", {.targets = {"w"}}) ==
        "targets: the dataset has no array targets/some/'w' and no array node_feature/'w'; it has "
        "y, z and known, x");
  CHECK(error("roots", "all", {.targets = {"y"}}) ==
        "targets: the dataset has no array targets/all/'y' and no array node_feature/'y'; it has "
        "none and known, x");
  // A small graph has no root whose features could be its target.
  CHECK(error("graphs", "parts", {.targets = {"x"}}) ==
        "targets: the dataset has no array targets/parts/'x'; it has size");
}

TEST_CASE("targets of a name that roots and graphs have belong to the roots", "[gathered]") {
  test::SmallGraphFolder folder;
  folder.Add<std::int64_t>("graphs/some", DType::kInt64, {0, 1, 2, 4});
  REQUIRE(folder.Seal().ok());
  CHECK(test::Make(folder.dir.path(), PartsWith("roots", "some", {.targets = {"y"}})).ok());
  CHECK_THAT(test::Make(folder.dir.path(), PartsWith("graphs", "some", {.targets = {"y"}}))
                 .status()
                 .message(),
             Contains("targets: the dataset has no array targets/some/'y'"));
  CHECK(ColumnNames(*test::MustMake(folder.dir.path(), test::Parts("graphs", "some"))) ==
        std::vector<std::string>{"node", "nodes", "edges"});
}

TEST_CASE("features of edges are refused if edges are added to batches", "[gathered]") {
  const FeatureFolder folder;
  for (const EdgesPart& edges : {EdgesPart{Symmetrization::kBidirectional, false},
                                 EdgesPart{Symmetrization::kDirected, true},
                                 EdgesPart{Symmetrization::kUndirected, false}}) {
    PlanParts parts = PartsWith("roots", "some", {.edge_features = {"w"}});
    parts.Edit<EdgesPart>() = edges;
    CHECK_THAT(test::Make(folder.dir.path(), parts).status().message(),
               Contains("edge_features: edges that are added to a batch have none"));
  }
}

TEST_CASE("rows without values are refused by array", "[gathered]") {
  test::SmallGraphFolder folder;
  folder.Add<float>("node_feature/none", DType::kFloat32, {}, {4, 0});
  REQUIRE(folder.Seal().ok());
  CHECK_THAT(test::Make(folder.dir.path(), PartsWith("roots", "some", {.features = {"none"}}))
                 .status()
                 .message(),
             Contains("node_feature/none.npy (array node_feature/none) has rows without values"));
}

TEST_CASE("rows that are too large for a batch are refused by array", "[gathered]") {
  const auto error = [](std::vector<std::uint64_t> row) {
    GraphFolder folder(0, 0);  // so that the rows need no file as large
    folder.Add<std::int64_t>("indptr", DType::kInt64, {0});
    folder.Add<std::int32_t>("indices", DType::kInt32, {});
    folder.Add<std::int32_t>("roots/some", DType::kInt32, {});
    row.insert(row.begin(), 0);
    folder.Add<std::uint8_t>("node_feature/x", DType::kUint8, {}, row);
    REQUIRE(folder.Seal().ok());
    return test::Make(folder.dir.path(), PartsWith("roots", "some", {.features = {"x"}}))
        .status()
        .message();
  };
  CHECK(error({1 << 15, 1 << 15}).empty());
  CHECK_THAT(error({1 << 15, (1 << 15) + 1}), Contains("node_feature/x.npy (array node_feature/x) "
                                                       "has too large rows"));
  CHECK_THAT(error({(1 << 30) + 1}), Contains("has too large rows"));
}

TEST_CASE("a bool that is neither 0 nor 1 is named", "[gathered]") {
  const FeatureFolder folder;
  test::OverwriteValue<std::uint8_t>(folder.dir / "node_feature/known.npy", 3, 7);
  BufferPool pool;
  const auto source =
      test::MustMake(folder.dir.path(), PartsWith("roots", "some", {.features = {"known"}}));
  CHECK(test::Build(*source, {0}, pool).ok());
  const Status status = test::Build(*source, {1}, pool).status();
  CHECK(status.code() == StatusCode::kDataLoss);
  CHECK_THAT(status.message(), Contains("node_feature/known.npy (array node_feature/known): number "
                                        "3 is 7, expected 0 or 1"));
  test::OverwriteValue<std::uint8_t>(folder.dir / "node_feature/known.npy", 3, 2);
  CHECK_THAT(test::Build(*source, {1}, pool).status().message(), Contains("number 3 is 2"));
  test::OverwriteValue<std::uint8_t>(folder.dir / "node_feature/known.npy", 3, 1);
  CHECK(test::Build(*source, {1}, pool).ok());
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(_GLIBCXX_TSAN)
TEST_CASE("a file of features that is cut off while it is in use is named", "[gathered]") {
  InstallSigbusGuard();
  GraphFolder folder(4, 0);
  folder.Add<std::int64_t>("indptr", DType::kInt64, {0, 0, 0, 0, 0});
  folder.Add<std::int32_t>("indices", DType::kInt32, {});
  folder.Add<float>("node_feature/x", DType::kFloat32, Floats(4 * 5000, 1.0F), {4, 5000});
  REQUIRE(folder.Seal().ok());
  const auto dataset = *GraphDataset::Open(folder.dir.path());
  const auto source =
      *GraphSources().Make("roots", dataset, PartsWith("roots", "all", {.features = {"x"}}));
  BufferPool pool;
  REQUIRE(test::Build(*source, {3}, pool).ok());
  std::filesystem::resize_file(folder.dir / "node_feature/x.npy", 4096);
  (void)test::Build(*source, {3}, pool);  // reads bytes that are no longer there
  CHECK(source->CheckIntact().code() == StatusCode::kDataLoss);
  CHECK_THAT(source->CheckIntact().message(),
             Contains("node_feature/x.npy (array node_feature/x)"));
}
#endif

TEST_CASE("the features of an edge are those of the edge, whatever the closure leaves out",
          "[gathered]") {
  const test::TempDir dir;
  GraphGeneratorReport report;
  const GraphGeneratorOptions made = {.nodes = 500,
                                      .degree = 8,
                                      .features = 0,
                                      .edge_features = 3,
                                      .edge_labels = GENERATE(0u, 3u),
                                      .roots = 60};
  REQUIRE(GenerateGraph(dir / "g", made, &report).ok());
  const auto dataset = *GraphDataset::Open(dir / "g");
  const GraphArray& features = *dataset->Find("edge_feature/w");
  const std::uint64_t row_bytes = *features.type.Bytes() / features.rows();
  // The rows of each (source, target, label), as the folder has them.
  std::map<std::vector<std::int64_t>, std::vector<std::string>> known;
  for (std::uint64_t node = 0; node < dataset->nodes(); ++node) {
    const GraphRange row = *dataset->Row(node);
    for (std::uint64_t edge = row.begin; edge < row.end; ++edge) {
      known[{static_cast<std::int64_t>(node), static_cast<std::int64_t>(*dataset->Neighbour(edge)),
             *dataset->EdgeLabel(edge)}]
          .emplace_back(reinterpret_cast<const char*>(features.data) + edge * row_bytes, row_bytes);
    }
  }
  BufferPool pool;
  PlanParts parts = PartsWith("roots", "train", {.edge_features = {"w"}});
  parts.Edit<ClosurePart>().options.max_subgraph_size = 40;
  parts.Edit<ClosurePart>().kernel =
      GENERATE(ClosureKernel::kArray, ClosureKernel::kTable, ClosureKernel::kInTurns);
  const auto source = test::MustMake(dir / "g", parts);
  for (std::int64_t example = 0; example < 60; ++example) {
    const auto batch = *test::Build(*source, {example}, pool);
    const Numbers node = test::Values(*batch, "node");
    const Numbers from = test::Values(*batch, "edge_source");
    const Numbers to = test::Values(*batch, "edge_target");
    const Numbers label =
        batch->Find("edge_label") ? test::Values(*batch, "edge_label") : Numbers(from.size());
    const auto rows = ValuesAs<char>(*batch, "edge_feature/w");
    REQUIRE(rows.size() == from.size() * row_bytes);
    std::map<std::vector<std::int64_t>, std::size_t> met;  // parallel edges stand in order
    for (std::size_t e = 0; e < from.size(); ++e) {
      const std::vector<std::int64_t> edge = {node[static_cast<std::size_t>(from[e])],
                                              node[static_cast<std::size_t>(to[e])], label[e]};
      REQUIRE(known.at(edge).at(met[edge]++) == std::string(&rows[e * row_bytes], row_bytes));
    }
  }
}

TEST_CASE("features of a golden graph are those of its files", "[gathered]") {
  const auto dir = std::filesystem::path(test::SharedDirOrSkip()) / "golden-graphs/graphs/power";
  PlanParts parts = PartsWith("roots", "train",
                              {.features = {"x"}, .edge_features = {"w"}, .targets = {"x", "y"}});
  parts.Edit<ClosurePart>().options.max_subgraph_size = 50;
  const auto source = test::MustMake(dir, parts);
  const auto dataset = *GraphDataset::Open(dir);
  BufferPool pool;
  const auto batch = *test::Build(*source, {0, 7, 63}, pool);
  const Numbers node = test::Values(*batch, "node");
  const GraphArray& x = *dataset->Find("node_feature/x");
  const auto features = ValuesAs<std::array<std::byte, 12>>(*batch, "node_feature/x");
  REQUIRE(features.size() == node.size());
  for (std::size_t i = 0; i < node.size(); ++i) {
    CHECK(std::memcmp(features[i].data(), x.data + 12 * node[i], 12) == 0);
  }
  // Rows have the edges into a node, so the root's own edges lead to it.
  CHECK(test::Values(*batch, "edge_target").front() == 0);
  const GraphArray& w = *dataset->Find("edge_feature/w");
  const auto first = dataset->Row(static_cast<std::uint64_t>(node.front()))->begin;
  CHECK(ValuesAs<std::byte>(*batch, "edge_feature/w").front() == w.data[first]);
  const Numbers targets = test::Values(*batch, "target/y");
  const GraphArray& y = *dataset->Find("targets/train/y");
  CHECK(targets == Numbers{static_cast<std::int64_t>(y.NumberAt(0)),
                           static_cast<std::int64_t>(y.NumberAt(7)),
                           static_cast<std::int64_t>(y.NumberAt(63))});
  CHECK(ValuesAs<std::array<std::byte, 12>>(*batch, "target/x").front() == features.front());
}

TEST_CASE("no example is larger than its source says", "[gathered]") {
  const FeatureFolder folder;
  BufferPool pool;
  for (const char* source_name : {"roots", "graphs"}) {
    const std::string list = source_name == std::string("roots") ? "some" : "parts";
    PlanParts plain = test::Parts(source_name, list);
    plain.Edit<ClosurePart>().options.max_subgraph_size = 1024;
    PlanParts more = plain;
    more.Edit<GraphArraysPart>() = {.features = {"x"}, .edge_features = {"w"}};
    const auto without = test::MustMake(folder.dir.path(), plain);
    const auto with = test::MustMake(folder.dir.path(), more);
    // Two floats for each of 4 nodes, two bytes for each of 5 edges, and where tensors begin.
    CHECK(with->facts().max_example_bytes ==
          without->facts().max_example_bytes + 4 * 8 + 5 * 2 + 2 * kTensorAlignment);
  }
  const auto source = test::MustMake(
      folder.dir.path(), PartsWith("roots", "some", {.features = {"x"}, .targets = {"z"}}));
  for (std::int64_t example = 0; example < 3; ++example) {
    CHECK((*test::Build(*source, {example}, pool))->payload().size() <=
          source->facts().max_example_bytes);
  }
}

}  // namespace
}  // namespace millrace
