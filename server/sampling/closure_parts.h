// The parts of a plan about graphs: how the graph of an example is found from its roots, and how
// its edges are completed when a batch is delivered.
//
// Value types.
#pragma once

#include <cstdint>
#include <optional>

#include "common/batch/layout/layout.h"
#include "server/sampling/closure_options.h"

namespace millrace {

struct ClosurePart {
  ClosureOptions options;
  std::optional<ClosureKernel> kernel;  // absent: chosen by the size of the data
};

/// The kernel of a plan over data of that many nodes.
ClosureKernel ChooseKernel(std::uint64_t nodes, const ClosurePart& closure);

struct EdgesPart {
  Symmetrization symmetrization = Symmetrization::kBidirectional;
  bool add_self_edges = true;
};

}  // namespace millrace
