#include "client/cli/offline/describe_padding.h"

#include <fmt/core.h>

#include "common/expand/expand.h"
#include "server/plan/tensors/tensor_plan.h"

namespace millrace::cli {

std::string DescribePadding(const Plan& plan, const PackedBatch& batch) {
  const TensorPlan* const computed = plan.computed();
  if (computed == nullptr || !computed->consumer() || !computed->consumer()->graph_pad) return "";
  // int64 holds every number, so that nothing else is refused.
  const auto delivery = Delivery::Make(plan.tensors(), *computed->consumer(), DType::kInt64);
  if (!delivery.ok()) return delivery.status().message();
  const auto layout = LayOutExpanded(batch, *delivery);
  if (!layout.ok()) return layout.status().message();
  const GraphPad& pad = *computed->consumer()->graph_pad;
  const GraphCounts& own = layout->own;
  return fmt::format(
      "pad.graph: {} nodes, {} edges and {} graphs are delivered; {}, {} and {} of them are no "
      "padding (edges: with reversed and self edges)",
      pad.nodes, pad.edges, pad.graphs, own.nodes, own.edges, own.graphs);
}

}  // namespace millrace::cli
