// What nvcc compiles of bench_device.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace millrace::bench {

/// Queues a kernel that keeps one multiprocessor busy for so long and touches no memory.
cudaError_t Spin(std::uint64_t nanoseconds, cudaStream_t stream);

}  // namespace millrace::bench
