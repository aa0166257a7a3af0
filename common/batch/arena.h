// Memory for batches: 64-byte aligned buffers that are recycled instead of freed. So a running
// worker or session does not ask the kernel for pages, and does not pay for the first touch of new
// ones.
//
// BufferPool is thread-safe. A Buffer is plain memory: threads that share one have to synchronise.
// Buffers may outlive their pool; then they are freed and not recycled.
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

/// Aligned memory from a pool. Its content is undefined after Acquire, because recycled memory is
/// not cleared.
class Buffer {
 public:
  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  /// At a multiple of kTensorAlignment.
  std::byte* data() { return data_; }
  const std::byte* data() const { return data_; }
  /// The size that was asked for.
  std::size_t size() const { return size_; }
  std::span<std::byte> bytes() { return {data_, size_}; }
  std::span<const std::byte> bytes() const { return {data_, size_}; }
  /// The size of the memory behind the buffer: its size class, at least size().
  std::size_t capacity() const { return capacity_; }

 private:
  friend class internal::PoolState;
  Buffer(BufferMemory* memory, std::size_t capacity) : memory_(memory), capacity_(capacity) {}

  BufferMemory* memory_;  // null: the buffer is from the heap
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  std::size_t capacity_;
};

struct BufferPoolStats {
  std::uint64_t bytes_in_use = 0;  // capacity of the buffers in use
  std::uint64_t bytes_cached = 0;  // capacity of the unused buffers that the pool keeps
  std::uint64_t allocations = 0;   // buffers taken from the system since the pool was made
  std::uint64_t reuses = 0;        // times that a kept buffer was given out again
};

class BufferPool {
 public:
  static constexpr std::size_t kDefaultCacheBytes = std::size_t{256} << 20;

  /// Keeps at most `max_cached_bytes` of unused buffers. Beyond that, the buffers that have been
  /// unused longest are freed. New buffers come from `memory` (null: from the heap). If `memory`
  /// has no room left, a buffer comes from the heap instead, and such a buffer is not kept.
  explicit BufferPool(std::size_t max_cached_bytes = kDefaultCacheBytes,
                      std::shared_ptr<BufferMemory> memory = nullptr);
  ~BufferPool();
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;

  /// No buffer is larger. A request beyond this is a mistake or an attack.
  static constexpr std::size_t kMaxBufferBytes = std::size_t{1} << 38;

  /// A buffer of `bytes` bytes (0 is allowed). It goes back to the pool when its last reference is
  /// dropped. ResourceExhausted if the system has no memory left, or beyond kMaxBufferBytes.
  Result<std::shared_ptr<Buffer>> Acquire(std::size_t bytes);

  BufferPoolStats stats() const;

  /// Frees all unused buffers.
  void Trim();

  /// The capacity of a buffer for `bytes` bytes. There are four size classes between a power of two
  /// and the next, from 4 KiB up, so that at most a fifth of a buffer is unused. 0 beyond
  /// kMaxBufferBytes.
  static std::size_t SizeClass(std::size_t bytes);

 private:
  std::shared_ptr<internal::PoolState> state_;
};

}  // namespace millrace
