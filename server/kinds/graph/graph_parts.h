// The parts of a plan that only graph datasets have.
//
// Value types.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "server/source/stage.h"

namespace millrace {

struct GraphClosurePart {
  ParamValue stop_at;  // labels of nodes: null, numbers or names
};

/// Neighbourhoods that are drawn, in place of closures.
struct NeighborPart {
  bool drawn = false;
  ParamValue fanout;  // a list by hop, or a tree: lists by the labels of edges
  bool replace = false;
  bool merge = true;
  std::uint64_t seed = 0;
  std::optional<std::uint32_t> max_subgraph_size = {};
};

/// Arrays of the dataset that come with the graphs: X of node_feature/X and so on.
struct GraphArraysPart {
  std::vector<std::string> features;
  std::vector<std::string> edge_features;
  std::vector<std::string> targets;
};

}  // namespace millrace
