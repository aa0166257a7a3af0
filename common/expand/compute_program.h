// Makes the tasks of the compute kernel (compute_kernel.h) for a batch. Steps that depend on each
// other are in different levels; a device does one level after another.
//
// Pure functions, thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/batch/batch.h"
#include "common/expand/computation.h"
#include "common/expand/compute_steps.h"
#include "common/expand/compute_task.h"

namespace millrace {

/// The work of a kernel that fills computed tensors of a delivered batch, including padding.
struct ComputeProgram {
  /// A run of tasks, none of which reads what another one writes.
  struct Level {
    std::uint32_t first = 0;  // task
    std::uint32_t count = 0;
    std::uint64_t tiles = 0;
  };
  std::vector<kernel::ComputeTask> tasks;  // no task is empty
  std::vector<Level> levels;               // not empty either
  std::vector<std::int64_t> tables;        // splits, and where rows begin
  std::uint64_t scratch_bytes = 0;         // for intermediate tensors
  bool reads_payload = false;
};

/// The inputs for the tasks.
struct ComputeInput {
  const internal::Computation& computation;
  const ComputeSteps& steps;
  const PackedBatch& packed;
  const ProgramMemory& memory;            // of the program, after BatchComputation::LayOut
  std::span<const ComputedPlace> places;  // of the computation's tensors in the delivered batch
};

ComputeProgram MakeComputeProgram(const ComputeInput& input);

/// The launch of a level. `launch` has all memory; its tasks are the program's.
kernel::ComputeLaunch LaunchOf(const ComputeProgram::Level& level, kernel::ComputeLaunch launch);

/// Runs a launch on the calling thread. All its memory is set, and it is memory of the host.
void RunOnHost(const kernel::ComputeLaunch& launch);

}  // namespace millrace
