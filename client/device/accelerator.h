// What a device has to do so that batches can be expanded in its memory (slot_device.h): memory,
// copies, the expansion kernel, and events that say when work that was queued is done.
//
// An accelerator has one side stream of its own, on which copies and kernels run one after the
// other beside the consumer's streams. Nothing here waits for the device but Synchronize.
//
// Implementations are thread-safe, and need not be used from one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "common/base/result.h"
#include "common/batch/batch.h"
#include "common/expand/expand_task.h"

namespace millrace {

class Accelerator {
 public:
  /// A consumer's stream, as in StreamLedger::UsedOn.
  using StreamHandle = std::uintptr_t;
  static constexpr StreamHandle kDefaultStream = 1;

  /// A place in a stream. May be dropped before it has passed, not after the accelerator is gone.
  class Event {
   public:
    virtual ~Event() = default;
  };

  virtual ~Accelerator() = default;

  /// As SessionOptions::device names it: "cuda:0".
  virtual std::string_view name() const = 0;
  /// For a person: "NVIDIA H200".
  virtual std::string_view model() const = 0;
  /// Of delivered tensors; without a ledger.
  virtual TensorMemory memory() const = 0;

  /// Memory of the device, at a multiple of kTensorAlignment; nullptr where there is none left.
  virtual std::byte* Allocate(std::size_t bytes) = 0;
  /// REQUIRES: all work on it is done.
  virtual void Free(std::byte* data) = 0;

  /// Memory of the host that the device copies from by itself, and can write to; nullptr where
  /// there is none left. At a multiple of kTensorAlignment.
  virtual std::byte* AllocatePinned(std::size_t bytes) = 0;
  virtual void FreePinned(std::byte* data) = 0;
  /// Makes memory that this process may only read pinned; Unimplemented where the device or its
  /// driver cannot.
  virtual Status RegisterReadOnly(std::span<const std::byte> bytes) = 0;
  virtual void Unregister(std::span<const std::byte> bytes) = 0;

  // On the side stream, after all that was queued there before.

  /// REQUIRES: `from` stays as it is, and `to` is left alone, until an event recorded later has
  /// passed.
  virtual Status CopyIn(std::byte* to, std::span<const std::byte> from) = 0;
  /// REQUIRES: as CopyIn, for all memory of `launch`; the tasks lie in the device's memory, the
  /// error word in pinned memory.
  virtual Status Expand(const kernel::Launch& launch) = 0;
  /// What is queued later waits for the event.
  virtual Status WaitFor(const Event& event) = 0;
  /// Passes when all that was queued so far is done.
  virtual Result<std::shared_ptr<Event>> Record() = 0;

  /// Passes when all that was queued on a consumer's stream so far is done.
  virtual Result<std::shared_ptr<Event>> RecordOn(StreamHandle stream) = 0;
  virtual bool Passed(const Event& event) = 0;
  /// This thread waits for the event. Not ok: the work before it failed.
  virtual Status Synchronize(const Event& event) = 0;
};

}  // namespace millrace
