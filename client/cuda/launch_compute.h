// The interface between the code that nvcc compiles and the rest of the program.
#pragma once

#include <cuda_runtime_api.h>

#include "common/expand/compute_task.h"

namespace millrace::kernel {

/// Queues the computation on a stream of the current device. REQUIRES: launch.tiles > 0.
cudaError_t LaunchCompute(const ComputeLaunch& launch, cudaStream_t stream);

}  // namespace millrace::kernel
