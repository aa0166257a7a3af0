// The parts of a machine that bench_device needs besides its accelerator: a training step that can
// hide copies, and the machine's limits.
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
  /// A training step that takes `seconds`, on a stream of its own. Returns when it is over.
  virtual Status Step(double seconds) = 0;
  /// GB/s of copies of `bytes` bytes from pinned memory, one after another.
  virtual Result<double> CopyLimit(std::size_t bytes) = 0;
  /// GB/s of a copy of `bytes` bytes within the device's memory; bytes read and bytes written both
  /// count.
  virtual Result<double> MemoryLimit(std::size_t bytes) = 0;
  /// Copies these bytes of the device to the host.
  virtual Result<std::vector<std::byte>> Fetch(std::span<const std::byte> bytes) = 0;
};

/// A machine that uses only the processor. Its figures say nothing about a GPU.
std::unique_ptr<Machine> MakeHostMachine();

/// A GPU, or the reason why there is none. Only in builds with MILLRACE_CUDA.
Result<std::unique_ptr<Machine>> MakeGpuMachine(int number);

}  // namespace millrace::bench
