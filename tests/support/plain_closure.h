// The closure and the delivered edges, computed in the plainest way, without regard for speed. They
// follow the description of the reference loader sentence by sentence. Tests compare the fast code
// with them; the two share no code.
//
// Pure functions.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace millrace::test {

struct PlainEdge {
  std::int64_t target = 0;
  std::int64_t label = 0;
  bool opaque = false;
};

struct PlainNode {
  std::int64_t label = 0;
  bool is_definition = false;
  bool unlabelled = false;
  std::vector<PlainEdge> children;
};

struct PlainOptions {
  std::int64_t max_subgraph_size = 1024;
  bool bfs_option = true;
  bool stop_at_definitions = true;
};

struct PlainTriple {
  std::int64_t source = 0;
  std::int64_t target = 0;
  std::int64_t label = 0;
};

struct PlainGraph {
  std::vector<std::int64_t> node_labels;
  std::vector<PlainTriple> recorded;
};

/// Returns the closure; nullopt if it reaches a definition without a label.
inline std::optional<PlainGraph> PlainClosure(const std::vector<PlainNode>& nodes,
                                              const std::vector<std::int64_t>& roots,
                                              const PlainOptions& options) {
  PlainGraph graph;
  std::map<std::int64_t, std::int64_t> number_of;
  std::deque<std::int64_t> to_expand;
  for (const std::int64_t root : roots) {
    if (nodes[static_cast<std::size_t>(root)].unlabelled) return std::nullopt;
    number_of[root] = static_cast<std::int64_t>(number_of.size());
    graph.node_labels.push_back(nodes[static_cast<std::size_t>(root)].label);
    to_expand.push_back(root);
  }
  while (!to_expand.empty()) {
    const std::int64_t x = options.bfs_option ? to_expand.front() : to_expand.back();
    if (options.bfs_option) {
      to_expand.pop_front();
    } else {
      to_expand.pop_back();
    }
    for (const PlainEdge& edge : nodes[static_cast<std::size_t>(x)].children) {
      if (edge.opaque) continue;
      const PlainNode& child = nodes[static_cast<std::size_t>(edge.target)];
      if (number_of.count(edge.target) == 0) {
        if (static_cast<std::int64_t>(number_of.size()) == options.max_subgraph_size) continue;
        if (child.unlabelled) return std::nullopt;
        number_of[edge.target] = static_cast<std::int64_t>(number_of.size());
        graph.node_labels.push_back(child.label);
        if (!(child.is_definition && options.stop_at_definitions)) to_expand.push_back(edge.target);
      }
      graph.recorded.push_back({number_of[x], number_of[edge.target], edge.label});
    }
  }
  return graph;
}

/// Returns the delivered edges: grouped by label, with the edges that symmetrization and self edges
/// add. `symmetrization` is "none", "undirected" or "bidirectional".
inline std::vector<PlainTriple> PlainDeliveredEdges(const PlainGraph& graph, std::int64_t labels,
                                                    const std::string& symmetrization,
                                                    bool add_self_edges) {
  std::vector<PlainTriple> edges;
  for (std::int64_t label = 0; label < labels; ++label) {
    for (const PlainTriple& edge : graph.recorded) {
      if (edge.label == label) edges.push_back(edge);
    }
    if (symmetrization != "undirected") continue;
    for (const PlainTriple& edge : graph.recorded) {
      if (edge.label == label) edges.push_back({edge.target, edge.source, label});
    }
  }
  std::int64_t last = labels;
  if (symmetrization == "bidirectional") {
    for (std::int64_t label = 0; label < labels; ++label) {
      for (const PlainTriple& edge : graph.recorded) {
        if (edge.label == label) edges.push_back({edge.target, edge.source, label + labels});
      }
    }
    last = 2 * labels;
  }
  if (add_self_edges) {
    for (std::int64_t n = 0; n < static_cast<std::int64_t>(graph.node_labels.size()); ++n) {
      edges.push_back({n, n, last});
    }
  }
  return edges;
}

}  // namespace millrace::test
