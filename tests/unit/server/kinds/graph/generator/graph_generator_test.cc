#include "server/kinds/graph/generator/graph_generator.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "server/kinds/graph/format/verify.h"
#include "tests/unit/server/kinds/graph/graph_folder.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;
using Catch::Contains;
using test::TempDir;

std::shared_ptr<const GraphDataset> Generate(const fs::path& dir,
                                             const GraphGeneratorOptions& options) {
  GraphGeneratorReport report;
  const Status status = GenerateGraph(dir, options, &report);
  INFO(status.message());
  REQUIRE(status.ok());
  auto dataset = GraphDataset::Open(dir);
  REQUIRE(dataset.ok());
  CHECK(report.nodes == (*dataset)->nodes());
  CHECK(report.edges == (*dataset)->edges());
  return *std::move(dataset);
}

TEST_CASE("a generated graph has only numbers that are in range", "[graph_generator]") {
  const TempDir dir;
  const auto dataset =
      Generate(dir / "graph", {.seed = 3, .nodes = 5000, .node_labels = 7, .edge_labels = 5});
  for (std::uint64_t n = 0; n < dataset->nodes(); ++n) {
    const auto row = dataset->Row(n);
    REQUIRE(row.ok());
    REQUIRE(dataset->NodeLabel(n).ok());
    std::uint32_t before = 0;
    for (std::uint64_t e = row->begin; e < row->end; ++e) {
      REQUIRE(dataset->Neighbour(e).ok());
      const auto label = dataset->EdgeLabel(e);
      REQUIRE(label.ok());
      REQUIRE(*label >= before);
      before = *label;
    }
  }
  CHECK(dataset->edge_labels() == 5);
  const GraphArray& train = *dataset->Find("roots/train");
  std::vector<std::uint64_t> roots;
  for (std::uint64_t r = 0; r < train.rows(); ++r) roots.push_back(*dataset->Root(train, r));
  CHECK(roots.size() == 500);
  std::sort(roots.begin(), roots.end());
  CHECK(std::adjacent_find(roots.begin(), roots.end()) == roots.end());
  CHECK(VerifyGraph(*dataset, {}).ok());
}

TEST_CASE("degrees and popularity of a generated graph follow a power law", "[graph_generator]") {
  const TempDir dir;
  const auto dataset = Generate(dir / "graph", {.nodes = 20000, .degree = 16, .features = 0});
  const double mean = static_cast<double>(dataset->edges()) / 20000;
  CHECK(mean > 12);
  CHECK(mean < 20);
  std::vector<std::uint64_t> out;
  std::vector<std::uint64_t> in(20000);
  for (std::uint64_t n = 0; n < 20000; ++n) out.push_back(dataset->Row(n)->size());
  for (std::uint64_t e = 0; e < dataset->edges(); ++e) ++in[*dataset->Neighbour(e)];
  CHECK(std::count(out.begin(), out.end(), 0u) > 1000);
  CHECK(*std::max_element(out.begin(), out.end()) > 500);
  CHECK(*std::max_element(in.begin(), in.end()) > 200);
  CHECK(dataset->Find("node_feature/x") == nullptr);
}

TEST_CASE("equal options give the recorded bytes, another seed gives others", "[graph_generator]") {
  const TempDir dir;
  const GraphGeneratorOptions options = {.seed = 1,
                                         .nodes = 1000,
                                         .features = 4,
                                         .edge_features = 2,
                                         .node_labels = 3,
                                         .edge_labels = 2,
                                         .classes = 3,
                                         .graphs = 40};
  CHECK(Generate(dir / "a", options)->digest().ToHex() == "7d8cce9d6f9e1a9925ad92bd391529f0");
  GraphGeneratorOptions other = options;
  other.seed = 2;
  CHECK(Generate(dir / "b", other)->digest() != Generate(dir / "c", options)->digest());
}

TEST_CASE("edges of generated small graphs stay in their graph", "[graph_generator]") {
  const TempDir dir;
  const auto dataset = Generate(dir / "graph", {.nodes = 1000, .features = 0, .graphs = 77});
  const GraphArray& graphs = *dataset->Find("graphs/small");
  REQUIRE(graphs.rows() == 78);
  std::uint64_t nodes = 0;
  for (std::uint64_t g = 0; g + 1 < graphs.rows(); ++g) {
    const GraphRange range = *dataset->SmallGraph(graphs, g);
    CHECK(range.size() > 0);
    nodes += range.size();
    for (std::uint64_t n = range.begin; n < range.end; ++n) {
      const GraphRange row = *dataset->Row(n);
      for (std::uint64_t e = row.begin; e < row.end; ++e) {
        const std::uint64_t target = *dataset->Neighbour(e);
        REQUIRE((target >= range.begin && target < range.end));
      }
    }
  }
  CHECK(nodes == 1000);
  CHECK(dataset->Find("targets/small/y")->rows() == 77);
}

TEST_CASE("a folder that is not empty is left as it is", "[graph_generator]") {
  const TempDir dir;
  test::WriteText(dir / "mine", "mine");
  GraphGeneratorReport report;
  const Status status = GenerateGraph(dir.path(), {.nodes = 10}, &report);
  CHECK(status.code() == StatusCode::kFailedPrecondition);
  CHECK_THAT(status.message(), Contains("is not empty"));
  CHECK(test::ReadText(dir / "mine") == "mine");
}

TEST_CASE("numbers of the generator that are out of range are refused", "[graph_generator]") {
  const TempDir dir;
  GraphGeneratorReport report;
  const auto error = [&](const GraphGeneratorOptions& options) {
    const Status status = GenerateGraph(dir / "graph", options, &report);
    CHECK(status.code() == StatusCode::kInvalidArgument);
    return status.message();
  };
  CHECK_THAT(error({.nodes = 0}), Contains("nodes: expected 1 to 2147483647, got 0"));
  CHECK_THAT(error({.degree = 3}), Contains("degree: expected 4 to 1000"));
  CHECK_THAT(error({.classes = 0}), Contains("classes"));
  CHECK_THAT(error({.nodes = 5, .roots = 6}), Contains("roots: expected 0 to 5"));
  CHECK_THAT(error({.nodes = 5, .graphs = 6}), Contains("graphs: expected 0 to 5"));
  CHECK_FALSE(fs::exists(dir / "graph"));
}

TEST_CASE("one node alone is a graph", "[graph_generator]") {
  const TempDir dir;
  CHECK(Generate(dir / "graph", {.nodes = 1, .graphs = 1})->nodes() == 1);
}

}  // namespace
}  // namespace millrace
