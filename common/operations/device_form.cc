#include "common/operations/device_form.h"

#include <algorithm>

#include "common/operations/tensor_graph.h"

namespace millrace {

std::vector<bool> MadeByDevices(const TensorGraph& graph, std::span<const std::size_t> given) {
  const std::vector<TensorNode>& nodes = graph.nodes();
  std::vector<bool> made(nodes.size(), false);
  for (const std::size_t node : given) made[node] = true;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const TensorNode& node = nodes[i];
    if (made[i] || node.operation == nullptr) continue;
    const bool has_form = node.bound.kernel == nullptr ||
                          !std::holds_alternative<std::monostate>(node.bound.kernel->device_form());
    made[i] = has_form && std::all_of(node.inputs.begin(), node.inputs.end(),
                                      [&](std::size_t input) { return made[input]; });
  }
  return made;
}

}  // namespace millrace
