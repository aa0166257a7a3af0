#include "tests/bench/device_spin.h"

namespace millrace::bench {
namespace {

__device__ std::uint64_t Now() {
  std::uint64_t nanoseconds;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(nanoseconds));
  return nanoseconds;
}

__global__ void Wait(std::uint64_t nanoseconds) {
  const std::uint64_t begin = Now();
  while (Now() - begin < nanoseconds) {
  }
}

}  // namespace

cudaError_t Spin(std::uint64_t nanoseconds, cudaStream_t stream) {
  Wait<<<1, 1, 0, stream>>>(nanoseconds);
  return cudaGetLastError();
}

}  // namespace millrace::bench
