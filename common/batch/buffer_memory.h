// The interface to memory that a BufferPool uses in place of the heap.
#pragma once

#include <cstddef>

namespace millrace {

/// Thread-safe. It has to outlive the memory that it allocated.
class BufferMemory {
 public:
  virtual ~BufferMemory() = default;
  /// Allocates `bytes` bytes at a multiple of kTensorAlignment; `bytes` is such a multiple too.
  /// nullptr if no memory is left; then a pool uses the heap.
  virtual std::byte* Allocate(std::size_t bytes) = 0;
  virtual void Free(std::byte* data, std::size_t bytes) = 0;
};

}  // namespace millrace
