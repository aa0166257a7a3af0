#include "client/device/slot_device.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "client/device/pinned_memory.h"
#include "client/device/slot_pool.h"
#include "common/expand/expand_program.h"
#include "common/system/mutex.h"

namespace millrace {
namespace {

/// The offset of the tasks in pinned memory. The error word lies before them.
constexpr std::size_t kTasksAt = kTensorAlignment;

/// A slot that a consumer holds.
class LentSlot final : public StreamLedger {
 public:
  LentSlot(std::shared_ptr<SlotPool> pool, Slot slot)
      : pool_(std::move(pool)), slot_(std::move(slot)) {}
  ~LentSlot() override {
    if (streams_.empty()) streams_.push_back(Accelerator::kDefaultStream);
    pool_->ReleaseAfter(std::move(slot_), streams_);
  }
  LentSlot(const LentSlot&) = delete;
  LentSlot& operator=(const LentSlot&) = delete;

  void UsedOn(std::uintptr_t stream) override {
    MutexLock lock(mutex_);
    if (std::find(streams_.begin(), streams_.end(), stream) == streams_.end()) {
      streams_.push_back(stream);
    }
  }

 private:
  const std::shared_ptr<SlotPool> pool_;
  Slot slot_;
  Mutex mutex_;
  std::vector<Accelerator::StreamHandle> streams_ MILLRACE_GUARDED_BY(mutex_);
};

/// A slot that only the side stream has used. All of that work is done, or runs before any later
/// work.
class OwnSlot {
 public:
  OwnSlot(std::shared_ptr<SlotPool> pool, Slot slot)
      : pool_(std::move(pool)), slot_(std::move(slot)) {}
  ~OwnSlot() {
    if (slot_.data != nullptr) pool_->Release(std::move(slot_));
  }
  OwnSlot(const OwnSlot&) = delete;
  OwnSlot& operator=(const OwnSlot&) = delete;

  const Slot& slot() const { return slot_; }
  /// Takes the slot out, to lend it to a consumer. REQUIRES: the slot is no longer busy.
  Slot Take() {
    slot_.busy.clear();
    return std::exchange(slot_, {});
  }

 private:
  const std::shared_ptr<SlotPool> pool_;
  Slot slot_;
};

class SlotDevice final : public Device {
 public:
  SlotDevice(std::shared_ptr<Accelerator> accelerator, const DeviceLimits& limits)
      : accelerator_(std::move(accelerator)),
        pinned_(std::make_shared<PinnedMemory>(accelerator_)),
        staging_(BufferPool::kDefaultCacheBytes, pinned_),
        payloads_(std::make_shared<SlotPool>(accelerator_, DeviceLimits{})),
        slots_(std::make_shared<SlotPool>(accelerator_, limits)) {}

  std::string_view name() const override { return accelerator_->name(); }
  Result<std::shared_ptr<const DeliveredBatch>> Expand(
      const std::shared_ptr<const PackedBatch>& packed, const Delivery& delivery,
      RowRange rows) override;
  std::shared_ptr<BufferMemory> receive_memory() override { return pinned_; }
  std::shared_ptr<const void> OnMapped(std::span<const std::byte> bytes) override {
    return pinned_->Register(bytes);
  }
  std::string status() const override;

 private:
  /// One call of Expand: everything that has to live until its event has passed.
  struct Work {
    ExpandProgram program;
    std::shared_ptr<Buffer> desk;  // the error word and the tasks
    bool uploads = true;           // whether the device reads the payload
    std::shared_ptr<const OwnSlot> payload;
    std::shared_ptr<Buffer> staged;    // the payload, if it was not in pinned memory
    std::shared_ptr<Buffer> computed;  // tensors that the host has computed; null: none
    std::shared_ptr<Accelerator::Event> done;
  };

  Result<std::shared_ptr<Buffer>> PinnedBuffer(std::size_t bytes);
  Result<Work> Prepare(const PackedBatch& packed, const ExpandLayout& layout);
  Status Upload(const std::shared_ptr<const PackedBatch>& packed, Work& work)
      MILLRACE_REQUIRES(mutex_);
  Status Queue(const std::shared_ptr<const PackedBatch>& packed, const ExpandLayout& layout,
               const Slot& slot, Work& work) MILLRACE_REQUIRES(mutex_);

  const std::shared_ptr<Accelerator> accelerator_;
  const std::shared_ptr<PinnedMemory> pinned_;
  BufferPool staging_;
  const std::shared_ptr<SlotPool> payloads_;
  const std::shared_ptr<SlotPool> slots_;
  std::atomic<std::uint64_t> batches_{0};
  std::atomic<std::uint64_t> staged_batches_{0};
  Mutex mutex_;  // for the side stream: one call queues all its work without a gap
  // The batch that was uploaded last. Its parts are expanded one after another from one upload.
  std::weak_ptr<const PackedBatch> uploaded_ MILLRACE_GUARDED_BY(mutex_);
  std::shared_ptr<const OwnSlot> uploaded_payload_ MILLRACE_GUARDED_BY(mutex_);
};

Result<std::shared_ptr<Buffer>> SlotDevice::PinnedBuffer(std::size_t bytes) {
  MILLRACE_ASSIGN_OR_RETURN(std::shared_ptr<Buffer> buffer, staging_.Acquire(bytes));
  // If no pinned memory is left, the pool takes memory from the heap.
  if (!pinned_->Contains(buffer->bytes())) {
    return ResourceExhausted(
        fmt::format("{}: no pinned memory of {} bytes: raise the limit on locked memory, or make "
                    "`prefetch_bytes` smaller",
                    name(), bytes));
  }
  return buffer;
}

Result<SlotDevice::Work> SlotDevice::Prepare(const PackedBatch& packed,
                                             const ExpandLayout& layout) {
  Work work;
  work.program = MakeExpandProgram(packed, layout);
  const std::span<const kernel::Task> tasks = work.program.tasks;
  MILLRACE_ASSIGN_OR_RETURN(work.desk, PinnedBuffer(kTasksAt + tasks.size_bytes()));
  std::memset(work.desk->data(), 0, kTasksAt);
  if (!tasks.empty()) {
    std::memcpy(work.desk->data() + kTasksAt, tasks.data(), tasks.size_bytes());
  }
  if (!layout.computed.empty()) {
    MILLRACE_ASSIGN_OR_RETURN(work.computed, PinnedBuffer(layout.bytes - layout.computed_begin));
    MILLRACE_RETURN_IF_ERROR(ComputeInto(packed, layout, work.computed->bytes()));
  }
  work.uploads = !tasks.empty() || layout.computed.empty();
  if (work.uploads && !pinned_->Contains(packed.payload())) {
    MILLRACE_ASSIGN_OR_RETURN(work.staged, PinnedBuffer(packed.payload().size()));
  }
  return work;
}

Status SlotDevice::Upload(const std::shared_ptr<const PackedBatch>& packed, Work& work) {
  if (uploaded_payload_ != nullptr && uploaded_.lock() == packed) {
    work.payload = uploaded_payload_;
    return OkStatus();
  }
  uploaded_payload_ = nullptr;
  std::span<const std::byte> from = packed->payload();
  MILLRACE_ASSIGN_OR_RETURN(Slot slot, payloads_->Acquire(from.size()));
  auto payload = std::make_shared<const OwnSlot>(payloads_, std::move(slot));
  work.payload = payload;
  ++batches_;
  if (work.staged != nullptr) {
    if (!from.empty()) std::memcpy(work.staged->data(), from.data(), from.size());
    from = work.staged->bytes();
    ++staged_batches_;
  }
  MILLRACE_RETURN_IF_ERROR(accelerator_->CopyIn(payload->slot().data, from));
  uploaded_ = packed;
  uploaded_payload_ = std::move(payload);
  return OkStatus();
}

Status SlotDevice::Queue(const std::shared_ptr<const PackedBatch>& packed,
                         const ExpandLayout& layout, const Slot& slot, Work& work) {
  kernel::Launch launch = work.program.launch;
  if (work.uploads) MILLRACE_RETURN_IF_ERROR(Upload(packed, work));
  for (const auto& event : slot.busy) MILLRACE_RETURN_IF_ERROR(accelerator_->WaitFor(*event));
  if (work.computed != nullptr) {
    MILLRACE_RETURN_IF_ERROR(
        accelerator_->CopyIn(slot.data + layout.computed_begin, work.computed->bytes()));
  }
  if (launch.tiles == 0) return OkStatus();
  std::byte* const tasks = slot.data + layout.bytes;
  MILLRACE_RETURN_IF_ERROR(accelerator_->CopyIn(tasks, work.desk->bytes().subspan(kTasksAt)));
  launch.payload = reinterpret_cast<const unsigned char*>(work.payload->slot().data);
  launch.out = reinterpret_cast<unsigned char*>(slot.data);
  launch.tasks = reinterpret_cast<const kernel::Task*>(tasks);
  launch.error = reinterpret_cast<std::uint32_t*>(work.desk->data());
  return accelerator_->Expand(launch);
}

Result<std::shared_ptr<const DeliveredBatch>> SlotDevice::Expand(
    const std::shared_ptr<const PackedBatch>& packed, const Delivery& delivery, RowRange rows) {
  MILLRACE_ASSIGN_OR_RETURN(const ExpandLayout layout, LayOutExpanded(*packed, delivery, rows));
  MILLRACE_ASSIGN_OR_RETURN(Work work, Prepare(*packed, layout));
  // The tasks lie after the tensors.
  MILLRACE_ASSIGN_OR_RETURN(
      Slot taken, slots_->Acquire(layout.bytes + work.program.tasks.size() * sizeof(kernel::Task)));
  OwnSlot slot(slots_, std::move(taken));
  Status queued;
  {
    MutexLock lock(mutex_);
    queued = Queue(packed, layout, slot.slot(), work);
    // Everything that was queued has to be done before its memory is used again.
    MILLRACE_ASSIGN_OR_RETURN(work.done, accelerator_->Record());
  }
  MILLRACE_RETURN_IF_ERROR(accelerator_->Synchronize(*work.done));
  MILLRACE_RETURN_IF_ERROR(queued);
  std::uint32_t error = 0;
  std::memcpy(&error, work.desk->data(), sizeof error);
  if (error != 0) return WhatIsWrong(*packed, layout);
  const std::span<std::byte> out(slot.slot().data, layout.bytes);
  auto lent = std::make_shared<LentSlot>(slots_, slot.Take());
  TensorMemory memory = accelerator_->memory();
  memory.ledger = lent.get();
  return ViewExpanded(*packed, layout, out, std::move(lent), memory);
}

std::string SlotDevice::status() const {
  std::string text = fmt::format("{} ({})", name(), accelerator_->model());
  if (const std::string why = pinned_->refusal(); !why.empty()) {
    text += fmt::format("; shared memory is copied once into pinned memory: {}", why);
  }
  if (const std::uint64_t staged = staged_batches_; staged > 0) {
    text +=
        fmt::format("; {} of {} batches were copied into pinned memory", staged, batches_.load());
  }
  return text;
}

}  // namespace

std::shared_ptr<Device> MakeSlotDevice(std::shared_ptr<Accelerator> accelerator,
                                       const DeviceLimits& limits) {
  return std::make_shared<SlotDevice>(std::move(accelerator), limits);
}

}  // namespace millrace
