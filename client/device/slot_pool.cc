#include "client/device/slot_pool.h"

#include <algorithm>
#include <utility>

#include <fmt/core.h>

#include "common/batch/arena.h"

namespace millrace {

SlotPool::SlotPool(std::shared_ptr<Accelerator> accelerator, const DeviceLimits& limits)
    : accelerator_(std::move(accelerator)), limits_(limits) {}

SlotPool::~SlotPool() {
  std::vector<Slot> idle;
  {
    MutexLock lock(mutex_);
    idle.swap(idle_);
  }
  for (Slot& slot : idle) Free(std::move(slot));
}

bool SlotPool::IsFree(const Slot& slot) const {
  return std::all_of(slot.busy.begin(), slot.busy.end(),
                     [&](const auto& event) { return accelerator_->Passed(*event); });
}

Slot SlotPool::TakeIdle(std::size_t bytes, bool even_busy) {
  auto best = idle_.end();
  for (auto it = idle_.begin(); it != idle_.end(); ++it) {
    // A slot of more than twice the needed size is left for a larger batch.
    if (it->capacity < bytes || it->capacity / 2 > BufferPool::SizeClass(bytes)) continue;
    if (even_busy) {
      best = it;
      break;
    }
    if ((best == idle_.end() || it->capacity < best->capacity) && IsFree(*it)) best = it;
  }
  if (best == idle_.end()) return {};
  Slot slot = std::move(*best);
  idle_.erase(best);
  if (!even_busy) slot.busy.clear();
  return slot;
}

Slot SlotPool::TakeOldest() {
  Slot slot = std::move(idle_.front());
  idle_.erase(idle_.begin());
  --slots_;
  bytes_ -= slot.capacity;
  return slot;
}

void SlotPool::Free(Slot slot) {
  for (const auto& event : slot.busy) {
    // If the device has failed, no work is left that could use the memory.
    (void)accelerator_->Synchronize(*event);
  }
  accelerator_->Free(slot.data);
}

Result<Slot> SlotPool::Acquire(std::size_t bytes) {
  const std::size_t capacity = BufferPool::SizeClass(bytes);
  if (capacity == 0) {
    return ResourceExhausted(fmt::format("a batch of {} bytes on {}", bytes, accelerator_->name()));
  }
  MutexLock lock(mutex_);
  bool none_left = false;
  for (;;) {
    if (Slot slot = TakeIdle(bytes, false); slot.data != nullptr) return slot;
    const bool full = none_left || slots_ >= limits_.slots || bytes_ + capacity > limits_.bytes;
    if (full && !idle_.empty()) {
      if (Slot slot = TakeIdle(bytes, true); slot.data != nullptr) return slot;
      Slot surplus = TakeOldest();
      lock.Unlock();
      Free(std::move(surplus));
      lock.Lock();
      none_left = false;
      continue;
    }
    if (none_left) {
      return ResourceExhausted(fmt::format(
          "{} has no memory for a batch of {} bytes, beside {} slots of {} bytes that are in use: "
          "drop batches earlier, or make `batch.size` smaller",
          accelerator_->name(), bytes, slots_, bytes_));
    }
    // Counted before the memory is allocated, so that other threads respect the limit.
    ++slots_;
    bytes_ += capacity;
    lock.Unlock();
    std::byte* const data = accelerator_->Allocate(capacity);
    if (data != nullptr) return Slot{data, capacity, {}};
    lock.Lock();
    --slots_;
    bytes_ -= capacity;
    none_left = true;
  }
}

void SlotPool::Release(Slot slot) {
  MutexLock lock(mutex_);
  idle_.push_back(std::move(slot));
}

void SlotPool::ReleaseAfter(Slot slot, const std::vector<Accelerator::StreamHandle>& streams) {
  for (const Accelerator::StreamHandle stream : streams) {
    auto event = accelerator_->RecordOn(stream);
    // If the stream no longer exists, an event on the default stream comes after its work.
    if (!event.ok()) event = accelerator_->RecordOn(Accelerator::kDefaultStream);
    if (!event.ok()) {
      // The device has failed, and nobody knows what it still does. So the memory is never freed.
      MutexLock lock(mutex_);
      --slots_;
      bytes_ -= slot.capacity;
      return;
    }
    slot.busy.push_back(*std::move(event));
  }
  Release(std::move(slot));
}

SlotPool::Stats SlotPool::stats() const {
  MutexLock lock(mutex_);
  return {slots_, idle_.size(), bytes_};
}

}  // namespace millrace
