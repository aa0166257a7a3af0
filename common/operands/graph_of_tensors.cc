#include "common/operands/graph_of_tensors.h"

#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace millrace {

Result<EdgeGroup> GraphOfTensors(std::span<const TensorSpec> tensors) {
  ExpandSpec expand;
  expand.base_edge_labels = 1;  // whatever there are: groups do not depend on it
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<EdgeGroup> groups, CheckTensors(tensors, expand));
  if (groups.empty()) {
    return InvalidArgument(
        "graph: the source's examples have no edges, so there is no graph to pad; expected a "
        "source "
        "of graphs");
  }
  if (groups.size() > 1) {
    std::vector<std::string> splits;
    for (const EdgeGroup& group : groups) splits.push_back(tensors[group.splits].path);
    return InvalidArgument(fmt::format(
        "graph: the source's examples have {} graphs each, with the splits {}; expected "
        "one",
        groups.size(), fmt::join(splits, ", ")));
  }
  const EdgeGroup& graph = groups.front();
  const std::string& nodes = tensors[graph.node_splits].path;
  for (const TensorSpec& tensor : tensors) {
    const bool has_nodes = tensor.dimension == "nodes" && !tensor.splits.empty();
    const std::string& splits = has_nodes ? tensor.splits : tensor.node_splits;
    if (splits.empty() || splits == nodes) continue;
    return InvalidArgument(
        fmt::format("graph: {} has nodes that {} cuts, and edges join those that {} cuts; expected "
                    "one kind of nodes",
                    tensor.path, splits, nodes));
  }
  return graph;
}

}  // namespace millrace
