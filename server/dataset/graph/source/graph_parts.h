// The parts of a plan that only graph datasets have.
//
// Value types.
#pragma once

#include <string>
#include <vector>

#include "server/pipeline/graph/stage.h"

namespace millrace {

struct GraphClosurePart {
  ParamValue stop_at;  // labels of nodes: null, numbers or names
};

/// Arrays of the dataset that come with the graphs: X of node_feature/X and so on.
struct GraphArraysPart {
  std::vector<std::string> features;
  std::vector<std::string> edge_features;
  std::vector<std::string> targets;
};

}  // namespace millrace
