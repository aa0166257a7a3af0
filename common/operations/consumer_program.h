// The tensors that a consumer makes from the tensors that travel: the part of a plan after the
// wire, as a plan gives it and a client gets it.
#pragma once

#include <cstddef>
#include <optional>
#include <utility>

#include "common/operations/graph_pad.h"
#include "common/operations/tensor_graph.h"

namespace millrace {

/// Value type.
struct ConsumerProgram {
  /// Implicit, because many programs are no more than definitions and outputs.
  ConsumerProgram(TensorGraphText graph) : text(std::move(graph)) {}  // NOLINT
  ConsumerProgram() = default;

  TensorGraphText text;  // names its outputs; its sources are the tensors that travel
  /// The number of tensors of the source that come first among those that travel; a worker has
  /// computed the others. Absent: all are the source's.
  std::optional<std::size_t> source_tensors = std::nullopt;
  /// Absent: batches have as many nodes, edges and graphs as they have.
  std::optional<GraphPad> graph_pad = std::nullopt;
};

}  // namespace millrace
