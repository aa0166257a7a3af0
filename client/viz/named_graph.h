// The graph of one example with the names of its labels, to be printed or drawn for people. The
// tool and the Python package both get the names of nodes and edges from here.
// Pure functions.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "client/viz/graph_svg.h"

namespace millrace {

/// The source of names: tables in any form that the caller has.
struct LabelNames {
  std::uint64_t node_labels = 0;  // how many node labels have a name
  std::uint64_t edge_labels = 0;
  std::function<std::string(std::uint64_t label)> node;  // only called for labels that have a name
  std::function<std::string(std::uint64_t label)> edge;
  /// Labels from this number on are drawn as single things; lower ones are classes of nodes.
  std::uint64_t node_classes = ~std::uint64_t{0};
};

struct LabelledEdge {
  std::uint32_t source = 0;
  std::uint32_t target = 0;
  std::uint64_t label = 0;
};

struct LabelledGraph {
  std::uint64_t example = 0;
  std::vector<std::uint64_t> node_labels;
  std::vector<bool> roots;  // one entry per node
  std::vector<LabelledEdge> edges;
};

struct NamedGraph {
  std::string title;
  std::vector<DrawnNode> nodes;
  std::vector<DrawnEdge> edges;
};

/// Stands for a label that has no name.
inline constexpr std::string_view kNoName = "?";

/// REQUIRES: there are as many roots as nodes.
NamedGraph NameGraph(const LabelledGraph& graph, const LabelNames& names);

/// REQUIRES: edges join nodes that exist.
std::string GraphSvg(const NamedGraph& graph);

}  // namespace millrace
