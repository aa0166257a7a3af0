// Joins the names of labels of graph datasets.
#include <catch2/catch.hpp>

#include <optional>
#include <string>
#include <vector>

#include "tests/unit/server/kinds/graph/graph_folder.h"
#include "tests/unit/server/kinds/graph/graph_source_fixture.h"
#include "tests/unit/server/plan/mix/made_up_tables.h"

namespace millrace::test {
namespace {

using LabelList = std::optional<std::vector<std::string>>;

/// A small graph whose labels have these names.
struct NamedGraph {
  NamedGraph(const LabelList& nodes, const LabelList& edges) {
    folder.description.node_labels = nodes;
    folder.description.edge_labels = edges;
    REQUIRE(folder.Seal().ok());
    source = MustMake(folder.dir.path(), Parts("roots", "some"));
  }
  SmallGraphFolder folder;
  std::shared_ptr<const Source> source;
};

std::vector<std::string> JointNames(const JoinedTables& joined, const char* table) {
  const auto tables = ServedTables(joined);
  const TextColumn& texts = **tables->Texts(table, "name");
  std::vector<std::string> names;
  for (std::size_t i = 0; i < texts.size(); ++i) names.emplace_back(texts[i]);
  return names;
}

TEST_CASE("names of labels of two graphs are joined", "[mix]") {
  const NamedGraph a({{"x", "y", "z"}}, {{"a", "b"}});
  const NamedGraph b({{"z", "w", "x"}}, {{"c", "a"}});
  const JoinedTables joined = MustJoin({a.source, b.source});
  CHECK(JointNames(joined, "node_labels") == std::vector<std::string>{"x", "y", "z", "w"});
  CHECK(JointNames(joined, "edge_labels") == std::vector<std::string>{"a", "b", "c"});
  CHECK(std::vector<std::uint32_t>(joined.RowsOf(1, 0).begin(), joined.RowsOf(1, 0).end()) ==
        std::vector<std::uint32_t>{2, 3, 0});
  CHECK(std::vector<std::uint32_t>(joined.RowsOf(1, 1).begin(), joined.RowsOf(1, 1).end()) ==
        std::vector<std::uint32_t>{2, 0});
  CHECK(joined.specs()[0].tensors == std::vector<std::string>{"node_label"});
  CHECK(joined.specs()[1].tensors == std::vector<std::string>{"edge_label"});
}

TEST_CASE("a graph without names of labels does not join one with them", "[mix]") {
  const NamedGraph a({{"x", "y", "z"}}, {{"a", "b"}});
  const NamedGraph b({{"x", "y", "z"}}, {});
  const auto joined = JoinedTables::Make(BranchesOf({a.source, b.source}), true);
  REQUIRE_FALSE(joined.ok());
  CHECK_THAT(joined.status().message(),
             Catch::Matchers::Contains(
                 "branch 'a' has a table 'edge_labels' (2 rows) and branch 'b' has none"));
}

TEST_CASE("graphs of other labels need joint tables", "[mix]") {
  const NamedGraph a({{"x", "y", "z"}}, {{"a", "b"}});
  const NamedGraph b({{"x", "y", "w"}}, {{"a", "b"}});
  const auto apart = JoinedTables::Make(BranchesOf({a.source, b.source}), false);
  REQUIRE_FALSE(apart.ok());
  CHECK_THAT(apart.status().message(),
             Catch::Matchers::Contains("differ in the table 'node_labels' (3 and 3 rows)"));
}

}  // namespace
}  // namespace millrace::test
