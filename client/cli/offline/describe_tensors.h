// The report of `millrace inspect --plan`: the tensors of a plan, where each is computed, and what
// it costs.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "server/plan/plan.h"
#include "server/plan/tensors/tensor_plan.h"

namespace millrace::cli {

/// The mean cost of a tensor per example.
struct TensorCost {
  double bytes = 0;        // as operations read it
  double nanoseconds = 0;  // to compute it alone, without loops that fuse operations; 0: a source's
};

/// Builds examples and computes every tensor of the plan's graph, in the order of its nodes. Errors
/// are those of building and of operations. REQUIRES: the plan computes tensors.
Result<std::vector<TensorCost>> MeasureTensors(const Plan& plan,
                                               std::span<const ExampleId> examples);

/// A table: each tensor with its operation, inputs, type, place, bytes, time and fingerprint; what
/// travels; and what is defined but not computed. `costs`: empty, or one for each node.
std::string DescribeTensorPlan(const TensorPlan& plan, std::span<const TensorCost> costs);

/// The same graph for Graphviz.
std::string TensorPlanDot(const TensorPlan& plan);

}  // namespace millrace::cli
