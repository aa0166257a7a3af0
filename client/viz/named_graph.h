// One example's graph with the names of its labels, to be printed or drawn for a person: the one
// place where nodes and edges get their names, for the tool and for Python.
//
// Pure functions.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "client/viz/graph_svg.h"

namespace millrace {

/// Where names come from: a vocabulary, in whatever form the caller has it.
struct LabelNames {
  std::uint64_t node_labels = 0;  // that have a name
  std::uint64_t edge_labels = 0;
  std::function<std::string(std::uint64_t label)> node;  // asked for labels that have one only
  std::function<std::string(std::uint64_t label)> edge;
  std::uint64_t node_classes = 0;  // labels from here on are definitions
};

struct LabelledEdge {
  std::uint32_t source = 0;
  std::uint32_t target = 0;
  std::uint64_t label = 0;
};

struct LabelledGraph {
  std::uint64_t example = 0;
  std::vector<std::uint64_t> node_labels;
  std::vector<bool> roots;  // one a node
  std::vector<LabelledEdge> edges;
};

struct NamedGraph {
  std::string title;
  std::vector<DrawnNode> nodes;
  std::vector<DrawnEdge> edges;
};

/// The name of a label that the vocabulary lacks.
inline constexpr std::string_view kNoName = "?";

/// REQUIRES: as many roots as nodes.
NamedGraph NameGraph(const LabelledGraph& graph, const LabelNames& names);

/// REQUIRES: edges join nodes that exist.
std::string GraphSvg(const NamedGraph& graph);

}  // namespace millrace
