// Reads how much memory this process uses.
//
// Thread-safe.
#pragma once

#include "server/worker/machine/memory_use.h"

namespace millrace {

/// Returns the memory of this process as the kernel counts it, without datasets that are in memory
/// (HugeMemory). A figure that the kernel does not give is 0.
MemoryUse ReadMemoryUse();

}  // namespace millrace
