#include "server/sampling/tensor_list.h"

#include <limits>

namespace millrace {

std::size_t TensorList::Add(std::string path, TensorKind kind, std::string dimension,
                            std::int64_t min, std::uint64_t max, std::string splits,
                            Expansion expansion) {
  TensorSpec spec;
  spec.path = std::move(path);
  spec.kind = kind;
  spec.dtype = NarrowestDType(min, max);
  spec.dimension = std::move(dimension);
  spec.splits = std::move(splits);
  spec.min = min;
  spec.max = max;
  spec.expansion = expansion;
  if (expansion == Expansion::kNodeOffset || expansion == Expansion::kEdgeSource ||
      expansion == Expansion::kEdgeTarget) {
    spec.node_splits = "node_splits";
  }
  tensors_.push_back(std::move(spec));
  return tensors_.size() - 1;
}

std::size_t TensorList::AddSplits(std::string path, Expansion expansion) {
  return Add(std::move(path), TensorKind::kSplits, "batch+1", 0,
             std::numeric_limits<std::uint32_t>::max(), "", expansion);
}

GraphTensors TensorList::AddGraph(std::uint64_t node_labels, std::uint64_t edge_labels,
                                  std::uint64_t nodes) {
  GraphTensors tensors;
  tensors.node_label =
      Add("node_label", TensorKind::kRaggedValues, "nodes", 0, node_labels - 1, "node_splits");
  const auto add_edges = [this](const char* path, std::uint64_t max, Expansion expansion) {
    return Add(path, TensorKind::kRaggedValues, "edges", 0, max, "edge_splits", expansion);
  };
  tensors.edges.source = add_edges("edge_source", nodes - 1, Expansion::kEdgeSource);
  tensors.edges.target = add_edges("edge_target", nodes - 1, Expansion::kEdgeTarget);
  tensors.edges.label = add_edges("edge_label", edge_labels - 1, Expansion::kEdgeLabel);
  AddSplits("node_splits");
  AddSplits("edge_splits", Expansion::kEdgeSplits);
  return tensors;
}

std::uint64_t NodeBound(const ClosureOptions& closure, std::uint64_t max_roots) {
  return max_roots > closure.max_subgraph_size ? kMaxExampleNodes : closure.max_subgraph_size;
}

}  // namespace millrace
