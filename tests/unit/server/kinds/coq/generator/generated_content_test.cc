// Reads generated datasets back, and counts the shapes of their graphs and definitions.
#include <catch2/catch.hpp>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <vector>

#include "server/kinds/coq/generator/generator.h"
#include "tests/support/dataset_fixture.h"
#include "tests/unit/server/kinds/coq/generator/plain_dataset.h"

namespace millrace {
namespace {

using test::DefinitionTag;
using test::EdgeLabel;
using test::NodeLabel;
using test::PlainDataset;
using test::PlainDefinition;
using test::PlainEdge;
using test::PlainFile;
using test::PlainNode;
using test::TempDir;

constexpr int kClassesOfNodes = 26;
constexpr int kClassesOfEdges = 44;

PlainDataset GeneratedFiles() {
  TempDir dir;
  GeneratorOptions options;
  options.nodes = 400'000;
  options.files = 50;
  options.seed = 11;
  GeneratorReport report;
  REQUIRE(GenerateDataset(dir.path(), options, &report).ok());
  return test::ReadPlainDataset(dir.path());
}

std::set<std::uint32_t> Spine(const PlainFile& file) {
  std::set<std::uint32_t> spine;
  for (std::uint32_t i = file.representative; i < file.labels.size();) {
    REQUIRE(file.definitions.count(i) == 1);
    REQUIRE(spine.insert(i).second);
    i = file.definitions.at(i).previous;
  }
  return spine;
}

/// Whether a path leads from `from` back to itself inside its file.
bool OnCycle(const PlainFile& file, std::uint32_t number, std::uint32_t from) {
  std::vector<std::uint32_t> open{from};
  std::set<std::uint32_t> seen;
  while (!open.empty() && seen.size() < 5000) {
    const std::uint32_t node = open.back();
    open.pop_back();
    for (const PlainEdge& edge : file.children[node]) {
      if (edge.target.first != number) continue;
      if (edge.target.second == from) return true;
      if (file.labels[edge.target.second] == NodeLabel::DEFINITION) continue;
      if (seen.insert(edge.target.second).second) open.push_back(edge.target.second);
    }
  }
  return false;
}

}  // namespace

TEST_CASE("files depend on themselves first and on others without a cycle", "[generator]") {
  const PlainDataset dataset = GeneratedFiles();
  std::vector<int> state(dataset.files.size(), 0);
  std::size_t most = 0;
  std::size_t foreign_edges = 0;
  const std::function<void(std::uint32_t)> visit = [&](std::uint32_t i) {
    REQUIRE(state[i] != 1);
    if (state[i] == 2) return;
    state[i] = 1;
    const auto& dependencies = dataset.files[i].dependencies;
    REQUIRE(!dependencies.empty());
    REQUIRE(dependencies[0] == i);
    REQUIRE(std::set<std::uint32_t>(dependencies.begin(), dependencies.end()).size() ==
            dependencies.size());
    most = std::max(most, dependencies.size());
    for (std::size_t d = 1; d < dependencies.size(); ++d) visit(dependencies[d]);
    state[i] = 2;
    for (const auto& children : dataset.files[i].children) {
      for (const PlainEdge& edge : children) foreign_edges += edge.target.first != i;
    }
  };
  for (std::uint32_t i = 0; i < dataset.files.size(); ++i) visit(i);
  CHECK(most >= 5);
  CHECK(foreign_edges > 10'000);
}

TEST_CASE("some files only import others and have no nodes", "[generator]") {
  const PlainDataset dataset = GeneratedFiles();
  std::size_t empty = 0;
  for (const PlainFile& file : dataset.files) {
    if (!file.labels.empty()) continue;
    ++empty;
    CHECK(file.representative == 0);
    CHECK(file.dependencies.size() > 1);
  }
  CHECK(empty == 2);
}

TEST_CASE("definitions form spines, and some lie off them", "[generator]") {
  const PlainDataset dataset = GeneratedFiles();
  std::size_t on = 0;
  std::size_t off = 0;
  for (const PlainFile& file : dataset.files) {
    const std::set<std::uint32_t> spine = Spine(file);
    on += spine.size();
    off += file.definitions.size() - spine.size();
  }
  CHECK(on > off);
  CHECK(off * 50 > on);
}

TEST_CASE("discharged definitions come from off the spine", "[generator]") {
  const PlainDataset dataset = GeneratedFiles();
  std::map<schema::Definition::Status::Which, std::size_t> count;
  for (const PlainFile& file : dataset.files) {
    for (const auto& [node, definition] : file.definitions) ++count[definition.status];
  }
  CHECK(count[schema::Definition::Status::DISCHARGED] > 20);
  CHECK(count[schema::Definition::Status::SUBSTITUTED] > 20);
  CHECK(count[schema::Definition::Status::ORIGINAL] > 1000);
}

TEST_CASE("requirements stand where a chain begins, and some in its middle", "[generator]") {
  const PlainDataset dataset = GeneratedFiles();
  std::size_t first = 0;
  std::size_t middle = 0;
  for (const PlainFile& file : dataset.files) {
    for (const auto& [node, definition] : file.definitions) {
      const bool begins = definition.previous == file.labels.size();
      (begins ? first : middle) += definition.required.size();
      if (begins && file.dependencies.size() > 4) CHECK(!definition.required.empty());
      for (std::uint32_t required : definition.required) CHECK(required != file.dependencies[0]);
    }
  }
  CHECK(first > 50);
  CHECK(middle >= 2);
}

TEST_CASE("a cluster is its representative and then its previous chain", "[generator]") {
  const PlainDataset dataset = GeneratedFiles();
  std::map<DefinitionTag, std::size_t> kinds;
  std::size_t largest = 0;
  std::size_t mutual = 0;
  for (const PlainFile& file : dataset.files) {
    std::map<std::uint32_t, std::set<std::uint32_t>> members;
    std::map<std::uint32_t, std::size_t> inductives;
    for (const auto& [node, definition] : file.definitions) {
      ++kinds[definition.tag];
      members[definition.cluster].insert(node);
      inductives[definition.cluster] += definition.tag == DefinitionTag::INDUCTIVE;
    }
    for (const auto& [representative, all] : members) {
      std::set<std::uint32_t> chain;
      for (std::uint32_t i = representative;
           i < file.labels.size() && file.definitions.at(i).cluster == representative;
           i = file.definitions.at(i).previous) {
        chain.insert(i);
      }
      CHECK(chain == all);
      largest = std::max(largest, all.size());
      mutual += inductives[representative] > 1;
    }
  }
  CHECK(kinds.size() == 7);
  for (const auto& [kind, count] : kinds) CHECK(count >= 10);
  CHECK(largest > 40);
  CHECK(mutual >= 3);
}

TEST_CASE("every class of nodes and edges occurs", "[generator]") {
  const PlainDataset dataset = GeneratedFiles();
  std::set<NodeLabel> nodes;
  std::set<EdgeLabel> edges;
  for (const PlainFile& file : dataset.files) {
    nodes.insert(file.labels.begin(), file.labels.end());
    for (const auto& children : file.children) {
      for (const PlainEdge& edge : children) edges.insert(edge.label);
    }
  }
  CHECK(nodes.size() == kClassesOfNodes);
  CHECK(edges.size() == kClassesOfEdges);
}

TEST_CASE("proofs are opaque more often than not", "[generator]") {
  const PlainDataset dataset = GeneratedFiles();
  std::size_t opaque = 0;
  std::size_t transparent = 0;
  for (const PlainFile& file : dataset.files) {
    for (const auto& [node, definition] : file.definitions) {
      if (definition.tag != DefinitionTag::TACTICAL_CONSTANT) continue;
      for (const PlainEdge& edge : file.children[node]) {
        opaque += edge.label == EdgeLabel::CONST_OPAQUE_DEF;
        transparent += edge.label == EdgeLabel::CONST_DEF;
      }
    }
  }
  CHECK(opaque > transparent);
  CHECK(transparent > 100);
}

TEST_CASE("subterms are shared, and degrees have heavy tails", "[generator]") {
  const PlainDataset dataset = GeneratedFiles();
  std::vector<std::vector<std::uint32_t>> degree;
  std::size_t nodes = 0;
  std::size_t most_children = 0;
  for (const PlainFile& file : dataset.files) {
    degree.emplace_back(file.labels.size(), 0);
    nodes += file.labels.size();
  }
  for (const PlainFile& file : dataset.files) {
    for (const auto& children : file.children) {
      most_children = std::max(most_children, children.size());
      for (const PlainEdge& edge : children) ++degree[edge.target.first][edge.target.second];
    }
  }
  std::size_t shared_terms = 0;
  std::uint32_t most = 0;
  for (std::size_t f = 0; f < degree.size(); ++f) {
    for (std::size_t i = 0; i < degree[f].size(); ++i) {
      shared_terms += degree[f][i] > 1 && dataset.files[f].labels[i] == NodeLabel::APP;
      most = std::max(most, degree[f][i]);
    }
  }
  CHECK(shared_terms * 50 > nodes);
  CHECK(most > 1000);
  CHECK(most_children > 100);
}

TEST_CASE("fixpoints, binders and existentials lie on cycles", "[generator]") {
  const PlainDataset dataset = GeneratedFiles();
  std::map<NodeLabel, std::size_t> on_cycle;
  for (std::uint32_t f = 0; f < dataset.files.size(); ++f) {
    const PlainFile& file = dataset.files[f];
    for (std::uint32_t i = 0; i < file.labels.size(); ++i) {
      const NodeLabel label = file.labels[i];
      if (label != NodeLabel::FIX && label != NodeLabel::LAMBDA && label != NodeLabel::EVAR)
        continue;
      if (on_cycle[label] < 20 && OnCycle(file, f, i)) ++on_cycle[label];
    }
  }
  CHECK(on_cycle[NodeLabel::FIX] == 20);
  CHECK(on_cycle[NodeLabel::LAMBDA] == 20);
  CHECK(on_cycle[NodeLabel::EVAR] == 20);
}

TEST_CASE("nodes of one identity are the same term", "[generator]") {
  const PlainDataset dataset = GeneratedFiles();
  std::map<std::int64_t, std::vector<PlainNode>> by_identity;
  for (std::uint32_t f = 0; f < dataset.files.size(); ++f) {
    for (std::uint32_t i = 0; i < dataset.files[f].identities.size(); ++i) {
      by_identity[dataset.files[f].identities[i]].push_back({f, i});
    }
  }
  std::size_t applications = 0;
  std::size_t in_several_files = 0;
  for (const auto& [identity, nodes] : by_identity) {
    for (const PlainNode& node : nodes) {
      REQUIRE(dataset.label(node) == dataset.label(nodes[0]));
      const auto& a = dataset.children(node);
      const auto& b = dataset.children(nodes[0]);
      REQUIRE(a.size() == b.size());
      for (std::size_t i = 0; i < a.size(); ++i) REQUIRE(a[i].target == b[i].target);
    }
    applications += nodes.size() > 1 && dataset.label(nodes[0]) == NodeLabel::APP;
    in_several_files += nodes.front().first != nodes.back().first;
  }
  CHECK(applications > 200);
  CHECK(applications < 2000);
  CHECK(in_several_files == 5);
}

}  // namespace millrace
