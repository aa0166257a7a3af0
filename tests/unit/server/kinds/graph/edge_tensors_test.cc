// The tensors of edges of graph datasets: labels, which an unlabelled graph lacks, and places.
#include <catch2/catch.hpp>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "common/batch/layout/tensor_table.h"
#include "common/expand/expand.h"
#include "server/kinds/graph/generator/graph_generator.h"
#include "server/source/tensors_part.h"
#include "tests/unit/server/kinds/graph/graph_folder.h"
#include "tests/unit/server/kinds/graph/graph_source_fixture.h"

namespace millrace {
namespace {

using test::GraphFolder;
using test::Numbers;
using test::Parts;
using test::Values;

/// The graph of SmallGraphFolder without labels, with the edges of its small graphs inside them.
class PlainFolder : public GraphFolder {
 public:
  PlainFolder() : GraphFolder(4, 5) {
    Add<std::int64_t>("indptr", DType::kInt64, {0, 2, 3, 4, 5});
    Add<std::int32_t>("indices", DType::kInt32, {1, 0, 0, 3, 3});
    Add<std::uint32_t>("roots/some", DType::kUint32, {2, 0, 2});
    Add<std::int64_t>("graphs/parts", DType::kInt64, {0, 2, 2, 4});
    Add<std::uint8_t>("edge_feature/w", DType::kUint8, {10, 11, 12, 13, 14});
    REQUIRE(Seal().ok());
  }
};

PlanParts Reading(PlanParts parts, std::vector<std::string> outputs) {
  parts.Edit<TensorsPart>().outputs = std::move(outputs);
  return parts;
}

bool HasTensor(const Source& source, const std::string& path) {
  return FindTensor(source.tensors(), path).has_value();
}

Numbers Delivered(const DeliveredBatch& batch, const std::string& path) {
  const DeliveredTensor* const tensor = batch.Find(path);
  REQUIRE(tensor != nullptr);
  Numbers values;
  for (std::size_t i = 0; i < tensor->shape[0]; ++i) values.push_back(tensor->ValueAt(i));
  return values;
}

TEST_CASE("batches of an unlabelled graph have no labels of edges, packed or delivered",
          "[edge_tensors]") {
  const PlainFolder folder;
  BufferPool pool;
  for (const auto& [name, list] : {std::pair{"roots", "some"}, {"graphs", "parts"}}) {
    for (const auto symmetrization : {Symmetrization::kDirected, Symmetrization::kUndirected}) {
      PlanParts parts = Parts(name, list);
      parts.Edit<EdgesPart>().symmetrization = symmetrization;
      const auto source = test::MustMake(folder.dir.path(), parts);
      CHECK(source->expand().edge_labels() == 1);
      const auto packed = *test::Build(*source, {2, 0}, pool);
      CHECK_FALSE(packed->Find("edge_label").has_value());
      const auto delivered = *Expand(*packed, DType::kInt64, pool);
      CHECK(delivered->Find("edge_label") == nullptr);
      CHECK(Delivered(*delivered, "edge_source").size() ==
            Values(*packed, "edge_source").size() *
                (symmetrization == Symmetrization::kDirected ? 1 : 2));
    }
  }
}

TEST_CASE("labels tell reversed edges and self edges of an unlabelled graph from its own",
          "[edge_tensors]") {
  const PlainFolder folder;
  BufferPool pool;
  PlanParts parts = Parts("graphs", "parts");
  const auto labels = [&](Symmetrization symmetrization, bool self_edges) {
    parts.Edit<EdgesPart>() = {symmetrization, self_edges};
    const auto packed = *test::Build(*test::MustMake(folder.dir.path(), parts), {0}, pool);
    CHECK(Values(*packed, "edge_label") == Numbers{0, 0, 0});
    return Delivered(**Expand(*packed, DType::kInt32, pool), "edge_label");
  };
  CHECK(labels(Symmetrization::kBidirectional, false) == Numbers{0, 0, 0, 1, 1, 1});
  CHECK(labels(Symmetrization::kDirected, true) == Numbers{0, 0, 0, 1, 1});
  CHECK(labels(Symmetrization::kUndirected, true) == Numbers{0, 0, 0, 0, 0, 0, 1, 1});
  CHECK(labels(Symmetrization::kBidirectional, true) == Numbers{0, 0, 0, 1, 1, 1, 2, 2});
}

TEST_CASE("names of labels without an array are no labels", "[edge_tensors]") {
  test::GraphFolder folder(2, 1);
  folder.description.edge_labels = {"a", "b"};
  folder.description.node_labels = {"x"};
  folder.Add<std::int64_t>("indptr", DType::kInt64, {0, 1, 1});
  folder.Add<std::int32_t>("indices", DType::kInt32, {1});
  REQUIRE(folder.Seal().ok());
  BufferPool pool;
  const auto source = test::MustMake(folder.dir.path(), Parts("roots", "all"));
  CHECK(source->expand().base_edge_labels == 1);
  CHECK_FALSE(HasTensor(*source, "edge_label"));
  CHECK_FALSE(HasTensor(*source, "node_label"));
  CHECK(Values(**test::Build(*source, {0}, pool), "node") == Numbers{0, 1});
}

TEST_CASE("batches have the places of edges only if something reads them", "[edge_tensors]") {
  const PlainFolder folder;
  const auto has_places = [&](const PlanParts& parts) {
    return HasTensor(*test::MustMake(folder.dir.path(), parts), "edge");
  };
  const PlanParts parts = Parts("roots", "some");
  CHECK_FALSE(has_places(parts));
  CHECK_FALSE(has_places(Reading(parts, {"edge_source", "edge_feature"})));
  CHECK(has_places(Reading(parts, {"node", "edge"})));
  PlanParts computed = parts;
  computed.Edit<TensorsPart>().definitions = {{"a", "cast", {"node"}}, {"b", "cast", {"edge"}}};
  CHECK(has_places(computed));
  // The pipeline's own tensor of that name.
  computed.Edit<TensorsPart>().definitions = {{"edge", "cast", {"node"}}, {"b", "cast", {"edge"}}};
  CHECK_FALSE(has_places(computed));
}

TEST_CASE("the places of edges stand in the order of the edges", "[edge_tensors]") {
  test::SmallGraphFolder folder;
  folder.description.rows = GENERATE(GraphRows::kSource, GraphRows::kTarget);
  REQUIRE(folder.Seal().ok());
  BufferPool pool;
  const auto source = test::MustMake(folder.dir.path(), Reading(Parts("roots", "some"), {"edge"}));
  const TensorSpec& spec = source->tensors()[*FindTensor(source->tensors(), "edge")];
  CHECK(spec.dimension == "edges");
  CHECK(spec.splits == "edge_splits");
  CHECK(spec.expansion == Expansion::kWiden);
  CHECK(spec.max == 4);
  const auto batch = *test::Build(*source, {0, 1}, pool);
  CHECK(Values(*batch, "edge_label") == Numbers{0, 0, 0, 0, 1, 1});
  CHECK(Values(*batch, "edge") == Numbers{4, 0, 1, 4, 2, 3});
}

TEST_CASE("small graphs have the places of their edges", "[edge_tensors]") {
  const PlainFolder folder;
  BufferPool pool;
  const auto source =
      test::MustMake(folder.dir.path(), Reading(Parts("graphs", "parts"), {"edge"}));
  const auto batch = *test::Build(*source, {2, 1, 0}, pool);
  CHECK(Values(*batch, "edge_splits") == Numbers{0, 2, 2, 5});
  CHECK(Values(*batch, "edge") == Numbers{3, 4, 0, 1, 2});
}

TEST_CASE("at the place of each edge lies the edge, with every kernel and many labels",
          "[edge_tensors]") {
  const test::TempDir dir;
  GraphGeneratorReport report;
  const GraphGeneratorOptions made = {
      .nodes = 500, .degree = 8, .features = 0, .edge_labels = GENERATE(0u, 3u, 400u), .roots = 60};
  REQUIRE(GenerateGraph(dir / "g", made, &report).ok());
  const auto dataset = *GraphDataset::Open(dir / "g");
  BufferPool pool;
  PlanParts parts = Reading(Parts("roots", "train"), {"edge"});
  parts.Edit<ClosurePart>().options.max_subgraph_size = 40;
  parts.Edit<ClosurePart>().kernel =
      GENERATE(ClosureKernel::kArray, ClosureKernel::kTable, ClosureKernel::kInTurns);
  const auto source = test::MustMake(dir / "g", parts);
  for (std::int64_t example = 0; example < 60; ++example) {
    const auto batch = *test::Build(*source, {example}, pool);
    const Numbers node = Values(*batch, "node");
    const Numbers from = Values(*batch, "edge_source");
    const Numbers to = Values(*batch, "edge_target");
    const Numbers edge = Values(*batch, "edge");
    REQUIRE(edge.size() == from.size());
    Numbers sorted = edge;
    std::sort(sorted.begin(), sorted.end());
    REQUIRE(std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end());
    for (std::size_t e = 0; e < edge.size(); ++e) {
      const auto place = static_cast<std::uint64_t>(edge[e]);
      const auto source_node = static_cast<std::uint64_t>(node[static_cast<std::size_t>(from[e])]);
      const GraphRange row = *dataset->Row(source_node);
      REQUIRE((row.begin <= place && place < row.end));
      REQUIRE(*dataset->Neighbour(place) ==
              static_cast<std::uint64_t>(node[static_cast<std::size_t>(to[e])]));
      if (!batch->Find("edge_label")) continue;
      REQUIRE(*dataset->EdgeLabel(place) == batch->ValueAt(*batch->Find("edge_label"), e));
    }
  }
}

}  // namespace
}  // namespace millrace
