// The tensors of a pipeline, compiled: what a worker computes from the source's tensors, what
// travels, and what a consumer computes from that.
//
// Immutable value type.
#pragma once

#include <cstddef>
#include <vector>

#include "common/base/result.h"
#include "common/operations/program.h"
#include "common/operations/tensor_graph.h"
#include "server/pipeline/graph/waist.h"

namespace millrace {

struct SplitProgram {
  /// An error is as those of TensorGraph::Bind.
  static Result<SplitProgram> Compile(const TensorGraph& graph);

  Waist waist;
  std::vector<std::size_t> sources;  // nodes of the graph: the inputs of `worker`
  Program worker;                    // its outputs are the tensors of the waist, in their order
  Program consumer;                  // from these to the graph's outputs, in their order
};

}  // namespace millrace
