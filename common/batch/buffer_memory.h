// Where a BufferPool takes its memory from, if not from the heap.
#pragma once

#include <cstddef>

namespace millrace {

/// Thread-safe. Outlives what it allocated.
class BufferMemory {
 public:
  virtual ~BufferMemory() = default;
  /// `bytes` bytes, a multiple of kTensorAlignment, at such a multiple; nullptr where there is none
  /// left: then a pool takes the heap.
  virtual std::byte* Allocate(std::size_t bytes) = 0;
  virtual void Free(std::byte* data, std::size_t bytes) = 0;
};

}  // namespace millrace
