// C++17: includes no header for which nvcc's host compiler would need C++20.
#include "client/cuda/launch_compute.h"

#include <algorithm>

#include "common/expand/compute_kernel.h"

namespace millrace::kernel {
namespace {

constexpr std::uint32_t kThreads = 256;
constexpr std::uint64_t kMostBlocks = 0x7fff'ffff;

__global__ void __launch_bounds__(kThreads) Compute(const ComputeLaunch launch) {
  for (std::uint64_t tile = blockIdx.x; tile < launch.tiles; tile += gridDim.x) {
    RunTile(launch, tile, threadIdx.x, kThreads);
  }
}

}  // namespace

cudaError_t LaunchCompute(const ComputeLaunch& launch, cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>(std::min(launch.tiles, kMostBlocks));
  Compute<<<blocks, kThreads, 0, stream>>>(launch);
  return cudaGetLastError();
}

}  // namespace millrace::kernel
