// The part of a device in the steps of a program: tasks of the compute kernel without the places
// and numbers that differ between batches, and the constants that they read. A device gets the
// constants once.
//
// Pure functions, thread-safe.
#pragma once

#include <cstddef>
#include <vector>

#include "common/expand/compute_task.h"
#include "common/operations/program_plan.h"

namespace millrace {

struct ComputeSteps {
  std::vector<kernel::ComputeTask> steps;       // of the plan's steps; meaningless for views
  std::vector<kernel::ComputeTask> deliveries;  // of the plan's deliveries
  std::vector<std::byte> constants;             // maps, passes, numbers, and values for bits
};

/// REQUIRES: devices can do all kernels of the plan (device_form.h).
ComputeSteps MakeComputeSteps(const ProgramPlan& plan);

}  // namespace millrace
