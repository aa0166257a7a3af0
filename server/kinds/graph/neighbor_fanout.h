// The fan-outs of a pipeline, read for a dataset, and the largest possible graphs.
//
// Pure functions.
#pragma once

#include <cstdint>

#include "common/base/result.h"
#include "server/kinds/graph/format/graph_dataset.h"
#include "server/kinds/graph/graph_parts.h"
#include "server/sampling/neighbor_options.h"

namespace millrace {

/// InvalidArgument that begins with "closure.fanout: " if the dataset has no such label, or if the
/// lists differ in length.
Result<NeighborOptions> ReadNeighborOptions(const GraphDataset& dataset, const NeighborPart& part);

/// Most nodes and edges that one root can bring.
struct NeighborBounds {
  std::uint64_t nodes = 1;
  std::uint64_t edges = 0;
};
NeighborBounds MostNeighbors(const GraphDataset& dataset, const NeighborOptions& options);

}  // namespace millrace
