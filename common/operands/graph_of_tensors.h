// The graph among the tensors of a batch that `pad.graph` pads.
//
// Pure function.
#pragma once

#include <span>

#include "common/base/result.h"
#include "common/batch/layout/layout.h"
#include "common/batch/layout/tensor_table.h"

namespace millrace {

/// The edges of a batch with one kind of edges, and of nodes. InvalidArgument that begins with
/// "graph: " if it has no edges, or several kinds. REQUIRES: the list keeps the rules of
/// tensor_table.h.
Result<EdgeGroup> GraphOfTensors(std::span<const TensorSpec> tensors);

}  // namespace millrace
