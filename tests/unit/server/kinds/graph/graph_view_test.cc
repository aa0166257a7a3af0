// Closures over graph datasets, held against the plain closure.
#include "server/kinds/graph/graph_view.h"

#include <catch2/catch.hpp>

#include <rapidcheck.h>
#include <rapidcheck/catch.h>

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "server/sampling/closure_builder.h"
#include "server/sampling/closure_in_turns.h"
#include "server/sampling/visited.h"
#include "tests/unit/server/kinds/graph/graph_folder.h"

namespace millrace {
namespace {

using Catch::Contains;
using test::GraphFolder;
using test::SmallGraphFolder;

/// A closure in the dataset's numbers.
struct Found {
  ClosureEnd end = ClosureEnd::kDone;
  Status status;
  std::vector<std::uint64_t> nodes;
  std::vector<std::uint32_t> sources;
  std::vector<std::uint32_t> targets;
  std::vector<std::uint32_t> labels;
  friend bool operator==(const Found&, const Found&) = default;
};

template <class Builder>
Found Build(const GraphDataset& dataset, GraphView& view, std::span<const std::uint64_t> roots,
            const ClosureOptions& options) {
  Builder builder(dataset.nodes(), options);
  Closure closure;
  Found found;
  if constexpr (Builder::kTakesTurns) {
    builder.Begin(view, roots, closure);
    while (!builder.Advance(view, closure, &found.end)) continue;
  } else {
    found.end = builder.Build(view, roots, closure);
  }
  found.status = view.status();
  if (found.end != ClosureEnd::kDone) return found;
  for (std::uint32_t n = 0; n < closure.node_labels.size(); ++n) {
    found.nodes.push_back(builder.NodeAt(n));
  }
  for (std::size_t e = 0; e < closure.edges(); ++e) {
    found.sources.push_back(closure.edge_ends.data()[e].source);
    found.targets.push_back(closure.edge_ends.data()[e].target);
    found.labels.push_back(closure.edge_words.data()[e] & 0xFFFF);
  }
  return found;
}

/// The closure by every kernel, which have to agree.
Found Closures(const GraphDataset& dataset, const std::vector<std::uint64_t>& roots,
               const ClosureOptions& options, const StopTable& stops) {
  GraphView view(dataset, stops);
  const Found array = Build<ClosureBuilder<GraphView, StampedArray>>(dataset, view, roots, options);
  const Found table = Build<ClosureBuilder<GraphView, StampedTable>>(dataset, view, roots, options);
  CHECK(array == table);
  if (options.order == ClosureOrder::kBreadthFirst) {
    const Found turns = Build<ClosureInTurns<GraphView>>(dataset, view, roots, options);
    CHECK(array == turns);
  }
  return array;
}

/// Breadth first, written down plainly.
Found PlainClosure(const GraphDataset& dataset, const std::vector<std::uint64_t>& roots,
                   std::size_t most, const std::set<std::uint32_t>& stop_at) {
  Found found;
  found.nodes = roots;
  for (std::uint32_t n = 0; n < found.nodes.size(); ++n) {
    const std::uint64_t node = found.nodes[n];
    if (n >= roots.size() && stop_at.count(*dataset.NodeLabel(node)) != 0) continue;
    const GraphRange row = *dataset.Row(node);
    for (std::uint64_t e = row.begin; e < row.end; ++e) {
      const std::uint64_t target = *dataset.Neighbour(e);
      std::size_t number = 0;
      while (number < found.nodes.size() && found.nodes[number] != target) ++number;
      if (number == found.nodes.size()) {
        if (number == most) continue;
        found.nodes.push_back(target);
      }
      found.sources.push_back(n);
      found.targets.push_back(static_cast<std::uint32_t>(number));
      found.labels.push_back(*dataset.EdgeLabel(e));
    }
  }
  return found;
}

StopTable StopsOf(const std::set<std::uint32_t>& labels) {
  StopTable stops;
  for (const std::uint32_t label : labels) {
    stops.resize(std::max<std::size_t>(stops.size(), label + 1));
    stops[label] = 1;
  }
  return stops;
}

template <class T>
std::vector<T> As(const std::vector<std::uint64_t>& values) {
  return {values.begin(), values.end()};
}

void AddNumbers(GraphFolder& folder, const std::string& name, bool wide,
                const std::vector<std::uint64_t>& values) {
  if (wide) {
    folder.Add(name, DType::kInt64, As<std::int64_t>(values));
  } else {
    folder.Add(name, DType::kInt32, As<std::int32_t>(values));
  }
}

TEST_CASE("closures over any graph dataset are the plain ones", "[graph_view]") {
  rc::prop("closures", [] {
    const auto nodes = *rc::gen::inRange<std::uint64_t>(1, 30);
    const auto kinds = *rc::gen::inRange<std::uint64_t>(1, 5);
    std::vector<std::uint64_t> indptr = {0};
    std::vector<std::uint64_t> indices;
    std::vector<std::uint64_t> edge_label;
    std::vector<std::uint64_t> node_label;
    for (std::uint64_t n = 0; n < nodes; ++n) {
      const auto degree = *rc::gen::inRange(0, 9);
      for (int e = 0; e < degree; ++e) {
        indices.push_back(*rc::gen::inRange<std::uint64_t>(0, nodes));
        edge_label.push_back(*rc::gen::inRange<std::uint64_t>(0, 300));
      }
      indptr.push_back(indices.size());
      node_label.push_back(*rc::gen::inRange<std::uint64_t>(0, kinds));
    }
    GraphFolder folder(nodes, indices.size());
    AddNumbers(folder, "indptr", *rc::gen::arbitrary<bool>(), indptr);
    AddNumbers(folder, "indices", *rc::gen::arbitrary<bool>(), indices);
    switch (*rc::gen::inRange(0, 4)) {
      case 0:
        break;
      case 1:
        folder.Add("edge_label", DType::kUint16, As<std::uint16_t>(edge_label));
        break;
      case 2:
        folder.Add("edge_label", DType::kInt32, As<std::int32_t>(edge_label));
        break;
      default:
        folder.Add("edge_label", DType::kUint64, edge_label);
    }
    std::set<std::uint32_t> stop_at;
    if (*rc::gen::arbitrary<bool>()) {
      folder.Add("node_label", DType::kUint8, As<std::uint8_t>(node_label));
      stop_at = *rc::gen::container<std::set<std::uint32_t>>(rc::gen::inRange<std::uint32_t>(0, 4));
    }
    REQUIRE(folder.Seal().ok());
    const auto dataset = *folder.Open();
    const std::vector<std::uint64_t> roots = {*rc::gen::inRange<std::uint64_t>(0, nodes)};
    ClosureOptions options;
    options.max_subgraph_size = *rc::gen::inRange<std::uint32_t>(1, 40);
    options.stop_at_boundary = true;
    const Found found = Closures(*dataset, roots, options, StopsOf(stop_at));
    RC_ASSERT(found == PlainClosure(*dataset, roots, options.max_subgraph_size, stop_at));
    options.order = ClosureOrder::kDepthFirst;
    CHECK(Closures(*dataset, roots, options, StopsOf(stop_at)).end == ClosureEnd::kDone);
  });
}

TEST_CASE("closures go on behind a root with a label of stop_at", "[graph_view]") {
  const SmallGraphFolder folder;
  REQUIRE(folder.Seal().ok());
  const auto dataset = *folder.Open();
  const Found stopped = Closures(*dataset, {0}, {}, StopsOf({0, 1}));
  CHECK(stopped.nodes == std::vector<std::uint64_t>{0, 1, 2});
  CHECK(stopped.sources == std::vector<std::uint32_t>{0, 0, 0, 2});
  CHECK(Closures(*dataset, {0}, {}, {}).nodes == std::vector<std::uint64_t>{0, 1, 2, 3});
}

TEST_CASE("closures name file and array of a number that is out of range", "[graph_view]") {
  const SmallGraphFolder folder;
  REQUIRE(folder.Seal().ok());
  std::string expected;
  std::uint64_t root = 0;
  SECTION("a negative node") {
    test::OverwriteValue<std::int32_t>(folder.dir / "indices.npy", 3, -1);
    expected = "indices.npy (array indices): a number is out of range, expected 0 to below 4";
  }
  SECTION("a node beyond the last") {
    test::OverwriteValue<std::int32_t>(folder.dir / "indices.npy", 0, 4);
    expected = "indices.npy (array indices): a number is out of range";
  }
  SECTION("an edge label") {
    test::OverwriteValue<std::uint8_t>(folder.dir / "edge_label.npy", 3, 2);
    expected = "edge_label.npy (array edge_label): a number is out of range, expected 0 to below 2";
  }
  SECTION("a node label") {
    test::OverwriteValue<std::int16_t>(folder.dir / "node_label.npy", 1, -1);
    expected = "node_label.npy (array node_label): number 1 is -1";
  }
  SECTION("the node label after the last") {
    test::OverwriteValue<std::int16_t>(folder.dir / "node_label.npy", 1, 3);
    expected = "node_label.npy (array node_label): number 1 is 3, expected 0 to below 3";
  }
  SECTION("a row that ends before it begins") {
    test::OverwriteValue<std::int64_t>(folder.dir / "indptr.npy", 2, 2);
    expected = "indptr.npy (array indptr): number 1 and the next are 3 and 2";
  }
  SECTION("a row that begins at a negative number") {
    test::OverwriteValue<std::int64_t>(folder.dir / "indptr.npy", 1, -2);
    expected = "indptr.npy (array indptr): number 0 and the next are 0 and -2";
  }
  SECTION("a row whose begin and end wrap round to a short one") {
    test::OverwriteValue<std::int64_t>(folder.dir / "indptr.npy", 1, -2);
    test::OverwriteValue<std::int64_t>(folder.dir / "indptr.npy", 2, 2);
    root = 1;
    expected = "indptr.npy (array indptr): number 1 and the next are -2 and 2";
  }
  SECTION("a row beyond the last edge") {
    test::OverwriteValue<std::int64_t>(folder.dir / "indptr.npy", 2, 6);
    expected = "indptr.npy (array indptr): number 1 and the next are 3 and 6";
  }
  const auto dataset = *folder.Open();
  const Found found = Closures(*dataset, {root}, {}, StopsOf({2}));
  CHECK(found.end == ClosureEnd::kFailed);
  CHECK_THAT(found.status.message(), Contains(expected));
}

TEST_CASE("numbers of eight bytes that do not fit a word are out of range", "[graph_view]") {
  GraphFolder folder(2, 1);
  folder.Add<std::int64_t>("indptr", DType::kInt64, {0, 1, 1})
      .Add<std::uint64_t>("indices", DType::kUint64, {(std::uint64_t{1} << 48) + 1})
      .Add<std::uint32_t>("edge_label", DType::kUint32, {0});
  REQUIRE(folder.Seal().ok());
  auto dataset = *folder.Open();
  CHECK(Closures(*dataset, {0}, {}, {}).end == ClosureEnd::kFailed);
  test::OverwriteValue<std::uint64_t>(folder.dir / "indices.npy", 0, 1);
  CHECK(Closures(*dataset, {0}, {}, {}).end == ClosureEnd::kDone);
  test::OverwriteValue<std::uint32_t>(folder.dir / "edge_label.npy", 0, 0x10000);
  CHECK(Closures(*dataset, {0}, {}, {}).end == ClosureEnd::kFailed);
}

}  // namespace
}  // namespace millrace
