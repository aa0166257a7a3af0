// Makes the tasks of the expansion kernel (expand_kernel.h) for a batch.
//
// Pure functions, thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/base/result.h"
#include "common/batch/batch.h"
#include "common/expand/expand.h"
#include "common/expand/expand_task.h"

namespace millrace {

/// The work of a kernel that fills the expanded tensors of a delivered batch, including padding.
struct ExpandProgram {
  std::vector<kernel::Task> tasks;  // no task is empty
  kernel::Launch launch;            // complete except for the memory that it works on
};

/// REQUIRES: `layout` is the layout of `packed`.
ExpandProgram MakeExpandProgram(const PackedBatch& packed, const ExpandLayout& layout);

/// Runs a program on the calling thread. All memory in `launch` is set, and it is memory of the
/// host.
void RunOnHost(const kernel::Launch& launch);

/// Returns the error of a batch if a kernel has set the error word, or if a part of the batch could
/// not be made. It expands the whole batch on the host, unobserved.
Status WhatIsWrong(const PackedBatch& packed, const ExpandLayout& layout);

}  // namespace millrace
