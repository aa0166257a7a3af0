// The operations of a device that are needed to expand batches in its memory (slot_device.h):
// memory, copies, the kernels, and events that say when queued work is done.
//
// An accelerator has one side stream of its own. Copies and kernels run on it one after another, at
// the same time as the consumer's streams. Only Synchronize waits for the device.
//
// Implementations are thread-safe: any thread may call them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "common/base/result.h"
#include "common/batch/batch.h"
#include "common/expand/compute_task.h"
#include "common/expand/expand_task.h"

namespace millrace {

class Accelerator {
 public:
  /// A stream of a consumer, as in StreamLedger::UsedOn.
  using StreamHandle = std::uintptr_t;
  static constexpr StreamHandle kDefaultStream = 1;

  /// A place in a stream. It may be dropped before the stream has passed it, but not after the
  /// accelerator is destroyed.
  class Event {
   public:
    virtual ~Event() = default;
  };

  virtual ~Accelerator() = default;

  /// The name that SessionOptions::device uses, for example "cuda:0".
  virtual std::string_view name() const = 0;
  /// The name of the model, for people: "NVIDIA H200".
  virtual std::string_view model() const = 0;
  /// The memory of delivered tensors; its ledger is null.
  virtual TensorMemory memory() const = 0;

  /// Memory of the device, at a multiple of kTensorAlignment. nullptr if none is left.
  virtual std::byte* Allocate(std::size_t bytes) = 0;
  /// REQUIRES: all work on this memory is done.
  virtual void Free(std::byte* data) = 0;

  /// Memory of the host that the device can copy from on its own, and can write to, at a multiple
  /// of kTensorAlignment. nullptr if none is left.
  virtual std::byte* AllocatePinned(std::size_t bytes) = 0;
  virtual void FreePinned(std::byte* data) = 0;
  /// Pins memory that this process may only read. Unimplemented if the device or its driver cannot
  /// do that.
  virtual Status RegisterReadOnly(std::span<const std::byte> bytes) = 0;
  virtual void Unregister(std::span<const std::byte> bytes) = 0;

  // These calls queue work on the side stream, after everything that was queued there before.

  /// REQUIRES: until an event that is recorded later has passed, `from` stays unchanged and nobody
  /// else uses `to`.
  virtual Status CopyIn(std::byte* to, std::span<const std::byte> from) = 0;
  /// REQUIRES: as for CopyIn, for all memory in `launch`. The tasks are in the device's memory, and
  /// the error word in pinned memory. The same holds for Compute.
  virtual Status Expand(const kernel::Launch& launch) = 0;
  virtual Status Compute(const kernel::ComputeLaunch& launch) = 0;
  /// Work that is queued later waits for the event.
  virtual Status WaitFor(const Event& event) = 0;
  /// The event passes when everything that was queued so far is done.
  virtual Result<std::shared_ptr<Event>> Record() = 0;

  /// The event passes when everything that was queued on a consumer's stream so far is done.
  virtual Result<std::shared_ptr<Event>> RecordOn(StreamHandle stream) = 0;
  virtual bool Passed(const Event& event) = 0;
  /// Blocks the calling thread until the event has passed. Not ok: the work before it failed.
  virtual Status Synchronize(const Event& event) = 0;
};

}  // namespace millrace
