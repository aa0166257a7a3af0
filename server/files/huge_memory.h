// Memory for large arrays with scattered reads: in huge pages as far as the kernel has them
// (transparent huge pages), so that fewer reads wait for the page table.
//
// Movable; thread-compatible. The bytes live as long as the object.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "common/base/result.h"

namespace millrace {

class HugeMemory {
 public:
  /// No memory.
  HugeMemory() = default;
  /// Zeros. Memory is allocated at the first write to it. ResourceExhausted if there is no address
  /// space. REQUIRES: bytes > 0.
  static Result<HugeMemory> Allocate(std::uint64_t bytes);

  HugeMemory(HugeMemory&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  HugeMemory& operator=(HugeMemory&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~HugeMemory();

  std::span<std::byte> bytes() { return {data_, size_}; }
  std::span<const std::byte> bytes() const { return {data_, size_}; }
  /// How many of the bytes are in huge pages now.
  std::uint64_t HugeBytes() const;
  /// From now on every write is a fault that ends the process.
  void Protect() const;

  /// Bytes of all such memory of this process.
  static std::uint64_t TotalBytes();

 private:
  std::byte* data_ = nullptr;
  std::uint64_t size_ = 0;
};

}  // namespace millrace
