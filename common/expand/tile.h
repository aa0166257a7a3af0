// Common parts of the kernels of this folder. The work of a launch is a table of tasks, each with a
// number of elements. A tile is kTileElements of one task, and any number of threads can share a
// tile. Tiles run in any order.
//
// C++17, because nvcc compiles it too.
#pragma once

#include <cstdint>
#include <type_traits>

#include "common/base/host_device.h"

namespace millrace::kernel {

inline constexpr std::uint64_t kTileElements = 2048;

/// Elements [begin, end) of a task, shared between threads. A thread has the element begin +
/// thread, and after it every element that is a multiple of `threads` further on.
struct Share {
  std::uint64_t begin;
  std::uint64_t end;
  std::uint32_t thread;
  std::uint32_t threads;
};

/// REQUIRES: nobody writes to the memory while the kernel runs.
template <class T>
MILLRACE_HOST_DEVICE inline T Load(const T* at) {
#if defined(__CUDA_ARCH__)
  return __ldg(at);
#else
  return *at;
#endif
}

/// Whether `Out` has the number.
template <class Out, class In>
MILLRACE_HOST_DEVICE bool Fits(In value) {
  const Out out = static_cast<Out>(value);
  return static_cast<In>(out) == value && (std::is_signed<In>::value || out >= 0);
}

/// The task that a tile belongs to. Tasks are not empty, and their first tiles ascend from 0.
template <class Task>
MILLRACE_HOST_DEVICE const Task& TaskOfTile(const Task* tasks, std::uint32_t count,
                                            std::uint64_t tile) {
  std::uint32_t low = 0;
  for (std::uint32_t high = count - 1; low < high;) {
    const std::uint32_t middle = low + (high - low + 1) / 2;
    if (tasks[middle].first_tile > tile) {
      high = middle - 1;
    } else {
      low = middle;
    }
  }
  return tasks[low];
}

/// The share of thread `thread` of `threads` in a tile of the task.
template <class Task>
MILLRACE_HOST_DEVICE Share ShareOfTile(const Task& task, std::uint64_t tile, std::uint32_t thread,
                                       std::uint32_t threads) {
  const std::uint64_t begin = (tile - task.first_tile) * kTileElements;
  const std::uint64_t end = task.count - begin < kTileElements ? task.count : begin + kTileElements;
  return {begin, end, thread, threads};
}

/// How many tiles `count` elements fill.
MILLRACE_HOST_DEVICE constexpr std::uint64_t TilesOf(std::uint64_t count) {
  return (count + kTileElements - 1) / kTileElements;
}

}  // namespace millrace::kernel
