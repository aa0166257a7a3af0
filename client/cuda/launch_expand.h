// The interface between the code that nvcc compiles and the rest of the program.
#pragma once

#include <cuda_runtime_api.h>

#include "common/expand/expand_task.h"

namespace millrace::kernel {

/// Queues the expansion on a stream of the current device. REQUIRES: launch.tiles > 0.
cudaError_t LaunchExpand(const Launch& launch, cudaStream_t stream);

}  // namespace millrace::kernel
