// Random graphs for property tests, in the form for the plain closure and in that for the fast one.
#pragma once

#include <rapidcheck.h>
#include <catch2/catch.hpp>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "tests/support/csr_source.h"
#include "tests/support/plain_closure.h"

namespace millrace::test {

struct RandomGraph {
  std::vector<PlainNode> plain;
  CsrGraph csr;
};

/// A graph with `labels` base labels. If `holes`, some definitions have no label.
inline RandomGraph MakeRandomGraph(std::uint32_t labels, bool holes) {
  RandomGraph graph;
  const auto nodes = *rc::gen::inRange<std::uint32_t>(1, 40);
  graph.plain.resize(nodes);
  graph.csr.base_edge_labels = labels;
  for (std::uint32_t n = 0; n < nodes; ++n) {
    PlainNode& node = graph.plain[n];
    node.label = *rc::gen::inRange(0, 50);
    node.is_definition = *rc::gen::inRange(0, 4) == 0;
    node.unlabelled = holes && node.is_definition && *rc::gen::inRange(0, 4) == 0;
    const auto children = *rc::gen::inRange(0, 6);
    for (int c = 0; c < children; ++c) {
      node.children.push_back({*rc::gen::inRange<std::int64_t>(0, nodes),
                               *rc::gen::inRange<std::int64_t>(0, labels),
                               *rc::gen::inRange(0, 8) == 0});
    }
    for (const PlainEdge& edge : node.children) {
      graph.csr.targets.push_back(static_cast<std::uint32_t>(edge.target));
      graph.csr.edge_labels.push_back(edge.opaque ? kSkippedEdge
                                                  : static_cast<std::uint32_t>(edge.label));
    }
    graph.csr.offsets.push_back(static_cast<std::uint32_t>(graph.csr.targets.size()));
    graph.csr.node_labels.push_back(node.unlabelled ? CsrGraph::kUnlabelled
                                                    : static_cast<std::uint32_t>(node.label));
    graph.csr.is_definition.push_back(node.is_definition);
  }
  return graph;
}

/// Some nodes of the graph: at least one, none twice.
inline std::vector<std::uint32_t> MakeRandomRoots(const RandomGraph& graph) {
  std::vector<std::uint32_t> nodes(graph.plain.size());
  std::iota(nodes.begin(), nodes.end(), 0);
  for (std::size_t i = nodes.size(); i > 1; --i) {
    std::swap(nodes[i - 1], nodes[*rc::gen::inRange<std::size_t>(0, i)]);
  }
  nodes.resize(*rc::gen::inRange<std::size_t>(1, std::min<std::size_t>(nodes.size(), 6) + 1));
  return nodes;
}

inline std::vector<std::int64_t> Wide(const std::vector<std::uint32_t>& values) {
  return {values.begin(), values.end()};
}

inline PlainOptions MakeRandomOptions() {
  PlainOptions options;
  options.max_subgraph_size = *rc::gen::inRange(1, 50);
  options.bfs_option = *rc::gen::arbitrary<bool>();
  options.stop_at_definitions = *rc::gen::arbitrary<bool>();
  return options;
}

inline ClosureOptions FastOptions(const PlainOptions& options) {
  return {static_cast<std::uint32_t>(options.max_subgraph_size),
          options.bfs_option ? ClosureOrder::kBreadthFirst : ClosureOrder::kDepthFirst,
          options.stop_at_definitions};
}

}  // namespace millrace::test
