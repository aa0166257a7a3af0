// What bench_device needs of a machine besides its accelerator: a step to hide copies under, and
// the limits that the machine sets.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "client/device/accelerator.h"
#include "common/base/result.h"

namespace millrace::bench {

class Machine {
 public:
  virtual ~Machine() = default;
  virtual std::shared_ptr<Accelerator> accelerator() const = 0;
  /// A step of a training that takes so long, on a stream of its own; returns when it is over.
  virtual Status Step(double seconds) = 0;
  /// GB/s of copies of `bytes` bytes from pinned memory, one after another.
  virtual Result<double> CopyLimit(std::size_t bytes) = 0;
  /// GB/s, read and written, of a copy of `bytes` bytes within the device's memory.
  virtual Result<double> MemoryLimit(std::size_t bytes) = 0;
  /// The device's bytes.
  virtual Result<std::vector<std::byte>> Fetch(std::span<const std::byte> bytes) = 0;
};

/// A processor: nothing that it measures says anything of a GPU.
std::unique_ptr<Machine> MakeHostMachine();

/// Of a build with MILLRACE_CUDA: a GPU, or why there is none.
Result<std::unique_ptr<Machine>> MakeGpuMachine(int number);

}  // namespace millrace::bench
