#include "common/batch/arena.h"

#include <bit>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "common/batch/buffer_memory.h"
#include "common/batch/layout/layout.h"
#include "common/system/mutex.h"

namespace millrace {
namespace {

constexpr std::size_t kSmallestClass = 4096;

}  // namespace

namespace internal {

/// The state that the pool and its buffers share. It lives until the last of them is gone.
class PoolState {
 public:
  PoolState(std::size_t max_cached_bytes, std::shared_ptr<BufferMemory> memory)
      : max_cached_bytes_(max_cached_bytes), memory_(std::move(memory)) {}

  ~PoolState() { Close(); }

  /// nullptr if the system has no memory left.
  std::unique_ptr<Buffer> Take(std::size_t bytes) {
    const std::size_t capacity = BufferPool::SizeClass(bytes);
    if (capacity == 0) return nullptr;
    std::unique_ptr<Buffer> buffer = TakeCached(capacity);
    if (buffer == nullptr) buffer = Allocate(capacity);
    if (buffer != nullptr) buffer->size_ = bytes;
    return buffer;
  }

  void GiveBack(std::unique_ptr<Buffer> buffer) {
    // Declared before the lock, so that buffers are freed after it is released: the system takes
    // long to take back large memory.
    std::vector<std::unique_ptr<Buffer>> surplus;
    MutexLock lock(mutex_);
    stats_.bytes_in_use -= buffer->capacity();
    // The buffer came from the heap because `memory_` had no room left.
    const bool stopgap = memory_ != nullptr && buffer->memory_ == nullptr;
    if (closed_ || stopgap || buffer->capacity() > max_cached_bytes_) {
      surplus.push_back(std::move(buffer));
    } else {
      while (stats_.bytes_cached + buffer->capacity() > max_cached_bytes_) {
        stats_.bytes_cached -= cached_.front()->capacity();
        surplus.push_back(std::move(cached_.front()));
        cached_.erase(cached_.begin());
      }
      stats_.bytes_cached += buffer->capacity();
      cached_.push_back(std::move(buffer));
    }
    lock.Unlock();
  }

  void Trim() {
    std::vector<std::unique_ptr<Buffer>> surplus;
    MutexLock lock(mutex_);
    surplus.swap(cached_);
    stats_.bytes_cached = 0;
    lock.Unlock();
  }

  /// From now on the pool keeps no buffer.
  void Close() {
    {
      MutexLock lock(mutex_);
      closed_ = true;
    }
    Trim();
  }

  BufferPoolStats stats() const {
    MutexLock lock(mutex_);
    return stats_;
  }

 private:
  std::unique_ptr<Buffer> TakeCached(std::size_t capacity) {
    MutexLock lock(mutex_);
    // The buffer that was used last is the most likely one to be in the processor's cache.
    for (std::size_t i = cached_.size(); i-- > 0;) {
      if (cached_[i]->capacity() != capacity) continue;
      std::unique_ptr<Buffer> buffer = std::move(cached_[i]);
      cached_.erase(cached_.begin() + static_cast<std::ptrdiff_t>(i));
      stats_.bytes_cached -= capacity;
      stats_.bytes_in_use += capacity;
      ++stats_.reuses;
      return buffer;
    }
    return nullptr;
  }

  /// nullptr if `memory_` has no room left, even after all cached buffers are freed.
  std::byte* AllocateFromMemory(std::size_t capacity) {
    if (std::byte* const data = memory_->Allocate(capacity)) return data;
    if (stats().bytes_cached == 0) return nullptr;
    Trim();
    return memory_->Allocate(capacity);
  }

  std::unique_ptr<Buffer> Allocate(std::size_t capacity) {
    std::unique_ptr<Buffer> buffer(new Buffer(memory_.get(), capacity));
    if (memory_ != nullptr) buffer->data_ = AllocateFromMemory(capacity);
    if (buffer->data_ == nullptr) {
      buffer->memory_ = nullptr;
      buffer->data_ = static_cast<std::byte*>(
          ::operator new(capacity, std::align_val_t(kTensorAlignment), std::nothrow));
    }
    if (buffer->data_ == nullptr) return nullptr;
    MutexLock lock(mutex_);
    stats_.bytes_in_use += capacity;
    ++stats_.allocations;
    return buffer;
  }

  const std::size_t max_cached_bytes_;
  const std::shared_ptr<BufferMemory> memory_;
  mutable Mutex mutex_;
  std::vector<std::unique_ptr<Buffer>> cached_ MILLRACE_GUARDED_BY(mutex_);  // unused longest first
  BufferPoolStats stats_ MILLRACE_GUARDED_BY(mutex_);
  bool closed_ MILLRACE_GUARDED_BY(mutex_) = false;
};

}  // namespace internal

Buffer::~Buffer() {
  if (memory_ == nullptr) {
    ::operator delete(data_, std::align_val_t(kTensorAlignment));
  } else {
    memory_->Free(data_, capacity_);
  }
}

BufferPool::BufferPool(std::size_t max_cached_bytes, std::shared_ptr<BufferMemory> memory)
    : state_(std::make_shared<internal::PoolState>(max_cached_bytes, std::move(memory))) {}

BufferPool::~BufferPool() { state_->Close(); }

Result<std::shared_ptr<Buffer>> BufferPool::Acquire(std::size_t bytes) {
  try {
    std::unique_ptr<Buffer> buffer = state_->Take(bytes);
    if (buffer != nullptr) {
      return std::shared_ptr<Buffer>(buffer.release(), [state = state_](Buffer* returned) {
        state->GiveBack(std::unique_ptr<Buffer>(returned));
      });
    }
  } catch (const std::bad_alloc&) {
    // The error below covers this case too.
  }
  return ResourceExhausted("no memory for a buffer of " + std::to_string(bytes) + " bytes");
}

BufferPoolStats BufferPool::stats() const { return state_->stats(); }

void BufferPool::Trim() { state_->Trim(); }

std::size_t BufferPool::SizeClass(std::size_t bytes) {
  if (bytes <= kSmallestClass) return kSmallestClass;
  if (bytes > kMaxBufferBytes) return 0;
  // bytes lies in (2^k, 2^(k+1)]. Four steps of 2^(k-2) lead from one end to the other.
  const auto k = static_cast<unsigned>(std::bit_width(bytes - 1)) - 1;
  const std::size_t step = std::size_t{1} << (k - 2);
  return (bytes + step - 1) / step * step;
}

}  // namespace millrace
