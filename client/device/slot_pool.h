// Memory of a device for batches, used again instead of freed: taking and freeing it would stop the
// device.
//
// A slot that is given back may still be read by work that is queued on consumers' streams. It
// carries events that pass when that is over; whoever gets it next lets the side stream wait for
// them before it writes. So a loop that runs ahead of its device is slowed down by its slots, and
// takes no more memory.
//
// Thread-safe. Slots may outlive whoever made the pool.
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
  /// What has to pass before the slot is written to.
  std::vector<std::shared_ptr<Accelerator::Event>> busy;
};

class SlotPool {
 public:
  struct Stats {
    std::size_t slots = 0;  // taken from the device, held and idle
    std::size_t idle = 0;
    std::uint64_t bytes = 0;
  };

  /// Beyond the limits, slots are taken only while all others are held.
  SlotPool(std::shared_ptr<Accelerator> accelerator, const DeviceLimits& limits);
  /// Waits for what idle slots are busy with. REQUIRES: no slot is held.
  ~SlotPool();
  SlotPool(const SlotPool&) = delete;
  SlotPool& operator=(const SlotPool&) = delete;

  /// A slot of at least `bytes` bytes: one that is free, else a new one, else the one that was
  /// given back first. ResourceExhausted where the device has no memory left.
  Result<Slot> Acquire(std::size_t bytes);
  /// `busy` is all that has to pass before the slot is written to again.
  void Release(Slot slot);
  /// The same, after what is queued on these streams at this moment.
  void ReleaseAfter(Slot slot, const std::vector<Accelerator::StreamHandle>& streams);

  Stats stats() const;

 private:
  bool IsFree(const Slot& slot) const;
  /// An idle slot that fits, or none: capacity 0. `even_busy`: the one given back first.
  Slot TakeIdle(std::size_t bytes, bool even_busy) MILLRACE_REQUIRES(mutex_);
  /// Takes the slot given back first out of the pool, to be freed.
  Slot TakeOldest() MILLRACE_REQUIRES(mutex_);
  /// Blocks until the slot is free.
  void Free(Slot slot) MILLRACE_EXCLUDES(mutex_);

  const std::shared_ptr<Accelerator> accelerator_;
  const DeviceLimits limits_;
  mutable Mutex mutex_;
  std::vector<Slot> idle_ MILLRACE_GUARDED_BY(mutex_);  // given back first comes first
  std::size_t slots_ MILLRACE_GUARDED_BY(mutex_) = 0;
  std::uint64_t bytes_ MILLRACE_GUARDED_BY(mutex_) = 0;
};

}  // namespace millrace
