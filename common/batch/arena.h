// Memory for batches: 64-byte aligned buffers that are recycled instead of freed, so that a running
// worker or session neither asks the kernel for pages nor pays for touching new ones.
//
// BufferPool is thread-safe. A Buffer is plain memory: who shares it, synchronises. Buffers may
// outlive their pool; then they are freed instead of recycled.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "common/base/result.h"

namespace millrace {

class BufferMemory;  // common/batch/buffer_memory.h

namespace internal {
class PoolState;
}

/// Aligned memory of a pool. Its content is undefined when acquired: recycled memory is not
/// cleared.
class Buffer {
 public:
  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  /// At a multiple of kTensorAlignment.
  std::byte* data() { return data_; }
  const std::byte* data() const { return data_; }
  /// What was asked for.
  std::size_t size() const { return size_; }
  std::span<std::byte> bytes() { return {data_, size_}; }
  std::span<const std::byte> bytes() const { return {data_, size_}; }
  /// What the buffer occupies: its size class, at least size().
  std::size_t capacity() const { return capacity_; }

 private:
  friend class internal::PoolState;
  Buffer(BufferMemory* memory, std::size_t capacity) : memory_(memory), capacity_(capacity) {}

  BufferMemory* memory_;  // null: of the heap
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  std::size_t capacity_;
};

struct BufferPoolStats {
  std::uint64_t bytes_in_use = 0;  // of buffers that someone holds, by capacity
  std::uint64_t bytes_cached = 0;  // of buffers that wait to be used again
  std::uint64_t allocations = 0;   // buffers taken from the system since the pool was made
  std::uint64_t reuses = 0;        // buffers given out again
};

class BufferPool {
 public:
  static constexpr std::size_t kDefaultCacheBytes = std::size_t{256} << 20;

  /// Keeps at most `max_cached_bytes` of unused buffers; beyond it, those unused longest are freed.
  /// Takes it from `memory`, and from the heap where that has no more; null: from the heap. What is
  /// of the heap for want of `memory` is not kept.
  explicit BufferPool(std::size_t max_cached_bytes = kDefaultCacheBytes,
                      std::shared_ptr<BufferMemory> memory = nullptr);
  ~BufferPool();
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;

  /// No buffer is larger: a number beyond it is a mistake, or an attack.
  static constexpr std::size_t kMaxBufferBytes = std::size_t{1} << 38;

  /// A buffer of `bytes` bytes (0 is legal), which goes back to the pool with its last reference.
  /// ResourceExhausted where the system has no memory, or beyond kMaxBufferBytes.
  Result<std::shared_ptr<Buffer>> Acquire(std::size_t bytes);

  BufferPoolStats stats() const;

  /// Frees all unused buffers.
  void Trim();

  /// The capacity of a buffer for `bytes`: the next of four classes a doubling, from 4 KiB up, so
  /// that at most a fifth is unused. 0 beyond kMaxBufferBytes.
  static std::size_t SizeClass(std::size_t bytes);

 private:
  std::shared_ptr<internal::PoolState> state_;
};

}  // namespace millrace
