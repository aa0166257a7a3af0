// How much memory the process uses.
//
// Free function; thread-safe.
#pragma once

#include "server/worker/machine/memory_use.h"

namespace millrace {

/// Of this process, as the kernel counts it; zeros where it does not say.
MemoryUse ReadMemoryUse();

}  // namespace millrace
