// An accelerator that uses only the CPU. It has the same contract as a GPU, for tests under
// sanitizers and for a first try without a GPU. Its streams are threads that work through a queue.
// So code that reads or reuses memory before an event has passed causes a data race, which a
// sanitizer reports.
//
// Thread-safe.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "client/device/accelerator.h"
#include "common/system/mutex.h"

namespace millrace {

struct HostAcceleratorOptions {
  std::string name = "host:0";
  std::uint64_t memory_bytes = std::uint64_t{1} << 40;  // the most that Allocate gives out
  std::uint64_t pinned_bytes = std::uint64_t{1} << 40;
  bool registers_read_only = true;
};

class HostAccelerator final : public Accelerator {
 public:
  explicit HostAccelerator(HostAcceleratorOptions options = {});
  /// Finishes the work that is queued.
  ~HostAccelerator() override;

  std::string_view name() const override { return options_.name; }
  std::string_view model() const override { return "the host's processor"; }
  TensorMemory memory() const override { return {}; }
  std::byte* Allocate(std::size_t bytes) override;
  void Free(std::byte* data) override;
  std::byte* AllocatePinned(std::size_t bytes) override;
  void FreePinned(std::byte* data) override;
  Status RegisterReadOnly(std::span<const std::byte> bytes) override;
  void Unregister(std::span<const std::byte> bytes) override;
  Status CopyIn(std::byte* to, std::span<const std::byte> from) override;
  Status Expand(const kernel::Launch& launch) override;
  Status Compute(const kernel::ComputeLaunch& launch) override;
  Status WaitFor(const Event& event) override;
  Result<std::shared_ptr<Event>> Record() override;
  /// Nothing is ever queued on the default stream, because a consumer's work on it is done when its
  /// call returns. NotFound for any other stream that NewStream did not return.
  Result<std::shared_ptr<Event>> RecordOn(StreamHandle stream) override;
  bool Passed(const Event& event) override;
  Status Synchronize(const Event& event) override;

  /// Makes a stream of a consumer; Queue puts work on it.
  StreamHandle NewStream();
  void Queue(StreamHandle stream, std::function<void()> work);

  struct Counts {
    std::uint64_t copies = 0;
    std::uint64_t copied_bytes = 0;
    std::uint64_t launches = 0;    // of both kernels
    std::uint64_t registered = 0;  // memory ranges that are registered now
    std::uint64_t allocations = 0;
    std::uint64_t allocated_bytes = 0;  // allocated now
  };
  Counts counts() const;

 private:
  class Stream;
  struct Block {
    std::size_t bytes;
    bool pinned;
  };

  template <class Launch>
  Status QueueLaunch(const Launch& launch);
  std::byte* Take(std::size_t bytes, bool pinned);
  void GiveBack(std::byte* data, bool pinned);
  std::shared_ptr<Stream> Find(StreamHandle stream) const;

  const HostAcceleratorOptions options_;
  mutable Mutex mutex_;
  std::map<std::byte*, Block> blocks_ MILLRACE_GUARDED_BY(mutex_);
  std::uint64_t pinned_bytes_ MILLRACE_GUARDED_BY(mutex_) = 0;
  std::map<StreamHandle, std::shared_ptr<Stream>> streams_ MILLRACE_GUARDED_BY(mutex_);
  Counts counts_ MILLRACE_GUARDED_BY(mutex_);
  const std::shared_ptr<Stream> side_;
};

}  // namespace millrace
