// One built example, as a run of bytes that caches and readers share.
//
// Filled by one thread. Immutable and thread-safe from then on, as
// std::shared_ptr<const ExampleBytes>. The bytes live as long as somebody holds the pointer, also
// after a cache has evicted them.
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <span>

namespace millrace {

class ExampleBytes {
 public:
  /// Memory of `size` bytes with undefined content.
  explicit ExampleBytes(std::size_t size)
      : memory_(std::make_unique_for_overwrite<std::byte[]>(size)), capacity_(size), size_(size) {}

  static std::shared_ptr<const ExampleBytes> Copy(std::span<const std::byte> bytes) {
    auto copy = std::make_shared<ExampleBytes>(bytes.size());
    if (!bytes.empty()) std::memcpy(copy->memory_.get(), bytes.data(), bytes.size());
    return copy;
  }

  /// Begins at a multiple of 16, so that arrays of any dtype can be read in place.
  std::span<const std::byte> bytes() const { return {memory_.get() + begin_, size_}; }

  /// All of the memory, for the thread that fills it.
  std::span<std::byte> memory() { return {memory_.get(), capacity_}; }
  /// From now on, bytes() are `size` bytes of the memory from `begin` on. REQUIRES: `begin` is a
  /// multiple of 16, and they are in the memory.
  void Narrow(std::size_t begin, std::size_t size) {
    begin_ = begin;
    size_ = size;
  }

  /// Heap memory of the object, with the heap's own overhead.
  std::size_t heap_bytes() const {
    constexpr std::size_t kSharedCounts = 16;
    return HeapBytes(kSharedCounts + sizeof(ExampleBytes)) + HeapBytes(capacity_);
  }

  /// Bytes that glibc's heap takes for a block of `size` bytes: 8 bytes before it, multiples of 16,
  /// at least 32. Whole pages for a block that is large enough to be mapped alone.
  static constexpr std::size_t HeapBytes(std::size_t size) {
    constexpr std::size_t kMappedAlone = std::size_t{128} << 10;
    if (size >= kMappedAlone) return (size + 16 + 4095) / 4096 * 4096;
    const std::size_t rounded = (size + 8 + 15) / 16 * 16;
    return rounded < 32 ? 32 : rounded;
  }

 private:
  std::unique_ptr<std::byte[]> memory_;
  std::size_t capacity_;
  std::size_t begin_ = 0;
  std::size_t size_;
};

using ExamplePtr = std::shared_ptr<const ExampleBytes>;

}  // namespace millrace
