#include "client/device/slot_device.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "client/device/device_programs.h"
#include "client/device/pinned_memory.h"
#include "client/device/slot_pool.h"
#include "common/expand/expand_program.h"
#include "common/system/mutex.h"

namespace millrace {
namespace {

/// The offset of the tables in pinned memory. The error word lies before them.
constexpr std::size_t kTablesAt = kTensorAlignment;

/// Puts tables one after another into memory.
class TableWriter {
 public:
  /// Gives where a table lies. All tables are added before any is written.
  std::size_t Add(std::span<const std::byte> table) {
    const std::size_t at = bytes_;
    tables_.push_back({at, table});
    bytes_ += (table.size() + kTensorAlignment - 1) / kTensorAlignment * kTensorAlignment;
    return at;
  }
  std::size_t bytes() const { return bytes_; }
  void Write(std::byte* to) const {
    for (const auto& [at, table] : tables_) {
      if (!table.empty()) std::memcpy(to + at, table.data(), table.size());
    }
  }

 private:
  std::vector<std::pair<std::size_t, std::span<const std::byte>>> tables_;
  std::size_t bytes_ = 0;
};

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
        scratch_(std::make_shared<SlotPool>(accelerator_, DeviceLimits{})),
        slots_(std::make_shared<SlotPool>(accelerator_, limits)) {}

  std::string_view name() const override { return accelerator_->name(); }
  Result<std::shared_ptr<const DeliveredBatch>> Expand(
      const std::shared_ptr<const PackedBatch>& packed, const Delivery& delivery,
      RowRange rows) override;
  std::span<const std::string> host_phases(const Delivery& delivery) override {
    if (delivery.computation() == nullptr) return {};
    return programs_.Of(delivery.computation())->computation.host_phases();
  }
  std::shared_ptr<BufferMemory> receive_memory() override { return pinned_; }
  std::shared_ptr<const void> OnMapped(std::span<const std::byte> bytes) override {
    return pinned_->Register(bytes);
  }
  std::string status() const override;

 private:
  /// One call of Expand: everything that has to live until its event has passed.
  struct Work {
    ExpandProgram expand;
    ComputeProgram compute;
    // The error word, and then the tables that are copied behind the tensors of the slot.
    std::shared_ptr<Buffer> staging;
    std::size_t compute_tasks_at = 0;  // among the tables, which begin with those of `expand`
    std::size_t splits_at = 0;
    std::size_t table_bytes = 0;
    bool uploads = true;  // whether the device reads the payload
    std::shared_ptr<const OwnSlot> payload;
    std::shared_ptr<Buffer> staged;          // the payload, if it was not in pinned memory
    std::shared_ptr<DeviceProgram> program;  // null: nothing is computed
    std::shared_ptr<const DeviceConstants> constants;
    std::shared_ptr<Buffer> staged_constants;
    std::shared_ptr<const OwnSlot> scratch;
    std::shared_ptr<Buffer> computed;  // tensors that the host has computed
    std::vector<DeviceComputation::Run> computed_runs;
    std::shared_ptr<Accelerator::Event> done;
  };

  Result<std::shared_ptr<Buffer>> PinnedBuffer(std::size_t bytes);
  Result<Work> Prepare(const PackedBatch& packed, const ExpandLayout& layout);
  Status PrepareComputed(const PackedBatch& packed, const ExpandLayout& layout, Work& work);
  Status Upload(const std::shared_ptr<const PackedBatch>& packed, Work& work)
      MILLRACE_REQUIRES(mutex_);
  Status UploadConstants(Work& work) MILLRACE_REQUIRES(mutex_);
  Status Queue(const std::shared_ptr<const PackedBatch>& packed, const ExpandLayout& layout,
               const Slot& slot, Work& work) MILLRACE_REQUIRES(mutex_);
  Status Launch(const Work& work, std::byte* out, const std::byte* tables);

  const std::shared_ptr<Accelerator> accelerator_;
  const std::shared_ptr<PinnedMemory> pinned_;
  BufferPool staging_;
  const std::shared_ptr<SlotPool> payloads_;
  const std::shared_ptr<SlotPool> scratch_;  // for computed tensors in between
  const std::shared_ptr<SlotPool> slots_;
  DevicePrograms programs_;
  std::atomic<std::uint64_t> batches_{0};
  std::atomic<std::uint64_t> staged_batches_{0};
  Mutex mutex_;  // for the side stream: one call queues all its work without a gap
  // The batch that was uploaded last. Its micro-batches are expanded one after another from one
  // upload.
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

/// Has the host compute its share, and finds the device's.
Status SlotDevice::PrepareComputed(const PackedBatch& packed, const ExpandLayout& layout,
                                   Work& work) {
  work.program = programs_.Of(layout.computation);
  const DeviceComputation& computation = work.program->computation;
  MILLRACE_ASSIGN_OR_RETURN(work.compute, computation.ProgramFor(packed, layout));
  work.computed_runs = computation.HostRuns(layout);
  if (!work.computed_runs.empty()) {
    const DeviceComputation::Run& last = work.computed_runs.back();
    MILLRACE_ASSIGN_OR_RETURN(work.computed, PinnedBuffer(last.from + last.bytes));
    const Status computed = computation.ComputeOnHost(packed, layout, work.computed->bytes());
    // If a value is wrong here, the host alone might find another one before it.
    if (!computed.ok()) return WhatIsWrong(packed, layout);
  }
  if (work.compute.scratch_bytes > 0) {
    MILLRACE_ASSIGN_OR_RETURN(Slot scratch, scratch_->Acquire(work.compute.scratch_bytes));
    work.scratch = std::make_shared<const OwnSlot>(scratch_, std::move(scratch));
  }
  return OkStatus();
}

Result<SlotDevice::Work> SlotDevice::Prepare(const PackedBatch& packed,
                                             const ExpandLayout& layout) {
  Work work;
  work.expand = MakeExpandProgram(packed, layout);
  if (!layout.computed.empty()) {
    MILLRACE_RETURN_IF_ERROR(PrepareComputed(packed, layout, work));
  }
  TableWriter tables;
  tables.Add(std::as_bytes(std::span(work.expand.tasks)));
  work.compute_tasks_at = tables.Add(std::as_bytes(std::span(work.compute.tasks)));
  work.splits_at = tables.Add(std::as_bytes(std::span(work.compute.tables)));
  work.table_bytes = tables.bytes();
  MILLRACE_ASSIGN_OR_RETURN(work.staging, PinnedBuffer(kTablesAt + work.table_bytes));
  std::memset(work.staging->data(), 0, kTablesAt);
  tables.Write(work.staging->data() + kTablesAt);
  work.uploads =
      !work.expand.tasks.empty() || work.compute.reads_payload || layout.computed.empty();
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

Status SlotDevice::UploadConstants(Work& work) {
  const std::span<const std::byte> constants = work.program->computation.constants();
  if (constants.empty()) return OkStatus();
  if (work.program->constants == nullptr) {
    MILLRACE_ASSIGN_OR_RETURN(work.staged_constants, PinnedBuffer(constants.size()));
    std::memcpy(work.staged_constants->data(), constants.data(), constants.size());
    std::byte* const data = accelerator_->Allocate(constants.size());
    if (data == nullptr) {
      return ResourceExhausted(fmt::format(
          "{} has no memory for the {} bytes of maps and numbers by which it computes tensors",
          name(), constants.size()));
    }
    auto made = std::make_shared<const DeviceConstants>(accelerator_, data);
    MILLRACE_RETURN_IF_ERROR(accelerator_->CopyIn(data, work.staged_constants->bytes()));
    work.program->constants = std::move(made);
  }
  work.constants = work.program->constants;
  return OkStatus();
}

Status SlotDevice::Queue(const std::shared_ptr<const PackedBatch>& packed,
                         const ExpandLayout& layout, const Slot& slot, Work& work) {
  if (work.uploads) MILLRACE_RETURN_IF_ERROR(Upload(packed, work));
  if (!work.compute.levels.empty()) MILLRACE_RETURN_IF_ERROR(UploadConstants(work));
  for (const auto& event : slot.busy) MILLRACE_RETURN_IF_ERROR(accelerator_->WaitFor(*event));
  for (const DeviceComputation::Run& run : work.computed_runs) {
    const std::span<const std::byte> from = work.computed->bytes().subspan(run.from, run.bytes);
    MILLRACE_RETURN_IF_ERROR(accelerator_->CopyIn(slot.data + run.to, from));
  }
  std::byte* const tables = slot.data + layout.bytes;
  if (work.table_bytes > 0) {
    MILLRACE_RETURN_IF_ERROR(
        accelerator_->CopyIn(tables, work.staging->bytes().subspan(kTablesAt)));
  }
  return Launch(work, slot.data, tables);
}

Status SlotDevice::Launch(const Work& work, std::byte* out, const std::byte* tables) {
  const auto* const payload = work.payload == nullptr ? nullptr : work.payload->slot().data;
  auto* const error = reinterpret_cast<std::uint32_t*>(work.staging->data());
  if (kernel::Launch launch = work.expand.launch; launch.tiles > 0) {
    launch.payload = reinterpret_cast<const unsigned char*>(payload);
    launch.out = reinterpret_cast<unsigned char*>(out);
    launch.tasks = reinterpret_cast<const kernel::Task*>(tables);
    launch.error = error;
    MILLRACE_RETURN_IF_ERROR(accelerator_->Expand(launch));
  }
  kernel::ComputeLaunch launch;
  launch.payload = reinterpret_cast<const unsigned char*>(payload);
  launch.out = reinterpret_cast<unsigned char*>(out);
  launch.tables = reinterpret_cast<const unsigned char*>(tables + work.splits_at);
  launch.tasks = reinterpret_cast<const kernel::ComputeTask*>(tables + work.compute_tasks_at);
  launch.error = error;
  if (work.scratch != nullptr) {
    launch.scratch = reinterpret_cast<unsigned char*>(work.scratch->slot().data);
  }
  if (work.constants != nullptr) {
    launch.constants = reinterpret_cast<const unsigned char*>(work.constants->data());
  }
  for (const ComputeProgram::Level& level : work.compute.levels) {
    MILLRACE_RETURN_IF_ERROR(accelerator_->Compute(LaunchOf(level, launch)));
  }
  return OkStatus();
}

Result<std::shared_ptr<const DeliveredBatch>> SlotDevice::Expand(
    const std::shared_ptr<const PackedBatch>& packed, const Delivery& delivery, RowRange rows) {
  MILLRACE_ASSIGN_OR_RETURN(const ExpandLayout layout, LayOutExpanded(*packed, delivery, rows));
  MILLRACE_ASSIGN_OR_RETURN(Work work, Prepare(*packed, layout));
  // The tables lie after the tensors.
  MILLRACE_ASSIGN_OR_RETURN(Slot taken, slots_->Acquire(layout.bytes + work.table_bytes));
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
  std::memcpy(&error, work.staging->data(), sizeof error);
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
  if (const std::string names = programs_.host_outputs(); !names.empty()) {
    text += fmt::format("; the host computes {}", names);
  }
  return text;
}

}  // namespace

std::shared_ptr<Device> MakeSlotDevice(std::shared_ptr<Accelerator> accelerator,
                                       const DeviceLimits& limits) {
  return std::make_shared<SlotDevice>(std::move(accelerator), limits);
}

}  // namespace millrace
