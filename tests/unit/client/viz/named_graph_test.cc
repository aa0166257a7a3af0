#include "client/viz/named_graph.h"

#include <catch2/catch.hpp>

namespace millrace {
namespace {

LabelNames Names() {
  LabelNames names;
  names.node_labels = 3;
  names.edge_labels = 1;
  names.node = [](std::uint64_t label) { return "node" + std::to_string(label); };
  names.edge = [](std::uint64_t label) { return "edge" + std::to_string(label); };
  names.node_classes = 2;
  return names;
}

TEST_CASE("nodes and edges have the names of their labels, and the title counts them", "[names]") {
  const NamedGraph named = NameGraph(
      {.example = 7, .node_labels = {1, 2}, .roots = {true, false}, .edges = {{0, 1, 0}}}, Names());
  CHECK(named.title == "example 7: 2 nodes, 1 edges");
  REQUIRE(named.nodes.size() == 2);
  CHECK(named.nodes[0].name == "node1");
  CHECK(named.nodes[0].root);
  CHECK_FALSE(named.nodes[0].definition);
  CHECK(named.nodes[1].name == "node2");
  CHECK_FALSE(named.nodes[1].root);
  CHECK(named.nodes[1].definition);
  REQUIRE(named.edges.size() == 1);
  CHECK(named.edges[0].source == 0);
  CHECK(named.edges[0].target == 1);
  CHECK(named.edges[0].name == "edge0");
}

TEST_CASE("a label that the vocabulary lacks has a question mark for a name", "[names]") {
  const NamedGraph named =
      NameGraph({.example = 0, .node_labels = {3}, .roots = {true}, .edges = {{0, 0, 1}}}, Names());
  CHECK(named.nodes[0].name == "?");
  CHECK(named.edges[0].name == "?");
}

TEST_CASE("a named graph is drawn with its title", "[names]") {
  const std::string svg = GraphSvg(NameGraph({.example = 7}, Names()));
  CHECK(svg.find("<title>example 7: 0 nodes, 0 edges</title>") != std::string::npos);
}

}  // namespace
}  // namespace millrace
