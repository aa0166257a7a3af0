// Where a BufferPool takes its memory from, if not from the heap.
#pragma once

#include <cstddef>

namespace millrace {

/// Thread-safe. Outlives what it allocated.
class BufferMemory {
 public:
  virtual ~BufferMemory() = default;
  /// `bytes` bytes at a multiple of kTensorAlignment; nullptr where there is no memory.
  virtual std::byte* Allocate(std::size_t bytes) = 0;
  virtual void Free(std::byte* data, std::size_t bytes) = 0;
};

}  // namespace millrace
