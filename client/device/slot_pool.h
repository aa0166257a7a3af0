// Memory of a device for batches. It is used again and not freed, because allocating and freeing it
// would stop the device.
//
// When a slot is given back, work that is queued on consumers' streams may still read it. So the
// slot carries events that pass when this work is done. The next user of the slot lets the side
// stream wait for these events before it writes. So a loop that runs ahead of its device waits for
// slots, and takes no more memory.
//
// Thread-safe. Slots may outlive the code that made the pool.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "client/device/accelerator.h"
#include "client/device/device.h"
#include "common/base/result.h"
#include "common/system/mutex.h"

namespace millrace {

struct Slot {
  std::byte* data = nullptr;
  std::size_t capacity = 0;
  /// The events that have to pass before the slot is written to.
  std::vector<std::shared_ptr<Accelerator::Event>> busy;
};

class SlotPool {
 public:
  struct Stats {
    std::size_t slots = 0;  // slots taken from the device, held or idle
    std::size_t idle = 0;
    std::uint64_t bytes = 0;
  };

  /// Beyond the limits, it takes slots from the device only while all others are held.
  SlotPool(std::shared_ptr<Accelerator> accelerator, const DeviceLimits& limits);
  /// Waits for the work that keeps idle slots busy. REQUIRES: no slot is held.
  ~SlotPool();
  SlotPool(const SlotPool&) = delete;
  SlotPool& operator=(const SlotPool&) = delete;

  /// A slot of at least `bytes` bytes: a free one; otherwise a new one; otherwise the one that was
  /// given back first. ResourceExhausted if the device has no memory left.
  Result<Slot> Acquire(std::size_t bytes);
  /// Gives a slot back. `busy` has every event that has to pass before the slot is written to
  /// again.
  void Release(Slot slot);
  /// The same. The slot is free after the work that is queued on these streams now.
  void ReleaseAfter(Slot slot, const std::vector<Accelerator::StreamHandle>& streams);

  Stats stats() const;

 private:
  bool IsFree(const Slot& slot) const;
  /// An idle slot that fits; capacity 0 if there is none. With `even_busy`, the one that was given
  /// back first, whether it is busy or not.
  Slot TakeIdle(std::size_t bytes, bool even_busy) MILLRACE_REQUIRES(mutex_);
  /// Takes the slot that was given back first out of the pool. The caller frees it.
  Slot TakeOldest() MILLRACE_REQUIRES(mutex_);
  /// Blocks until the slot is not busy any more, and frees it.
  void Free(Slot slot) MILLRACE_EXCLUDES(mutex_);

  const std::shared_ptr<Accelerator> accelerator_;
  const DeviceLimits limits_;
  mutable Mutex mutex_;
  std::vector<Slot> idle_
      MILLRACE_GUARDED_BY(mutex_);  // in the order in which they were given back
  std::size_t slots_ MILLRACE_GUARDED_BY(mutex_) = 0;
  std::uint64_t bytes_ MILLRACE_GUARDED_BY(mutex_) = 0;
};

}  // namespace millrace
