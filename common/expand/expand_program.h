// From a batch to the tasks of the expansion kernel (expand_kernel.h).
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

/// What a kernel does to fill a delivered batch, padding included.
struct ExpandProgram {
  std::vector<kernel::Task> tasks;  // each has elements
  kernel::Launch launch;            // all but the memory it works on
};

/// REQUIRES: `layout` is that of `packed`.
ExpandProgram MakeExpandProgram(const PackedBatch& packed, const ExpandLayout& layout);

/// Runs a program on the calling thread. `launch` has its memory, all of it the host's.
void RunOnHost(const kernel::Launch& launch);

/// What is wrong with a batch whose expansion by a kernel set the error word: the words of the
/// host's expansion.
Status WhatIsWrong(const PackedBatch& packed, const ExpandLayout& layout);

}  // namespace millrace
