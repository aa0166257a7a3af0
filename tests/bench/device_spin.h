// The part of bench_device that nvcc compiles.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace millrace::bench {

/// Queues a kernel that keeps one multiprocessor busy for `nanoseconds` and touches no memory.
cudaError_t Spin(std::uint64_t nanoseconds, cudaStream_t stream);

}  // namespace millrace::bench
