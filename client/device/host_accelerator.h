// An accelerator made of a processor: the same contract as a GPU, for tests under sanitizers and
// for a first look without one. Streams are threads that work through a queue, so that whoever
// reads or reuses memory before an event has passed is a data race.
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
  std::uint64_t memory_bytes = std::uint64_t{1} << 40;  // that Allocate gives out at most
  std::uint64_t pinned_bytes = std::uint64_t{1} << 40;
  bool registers_read_only = true;
};

class HostAccelerator final : public Accelerator {
 public:
  explicit HostAccelerator(HostAcceleratorOptions options = {});
  /// Works off what is queued.
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
  Status WaitFor(const Event& event) override;
  Result<std::shared_ptr<Event>> Record() override;
  /// The default stream has nothing queued: a consumer's work on it is done when it is called.
  /// NotFound for a stream that is neither that nor of NewStream.
  Result<std::shared_ptr<Event>> RecordOn(StreamHandle stream) override;
  bool Passed(const Event& event) override;
  Status Synchronize(const Event& event) override;

  /// A stream of a consumer, and work on it.
  StreamHandle NewStream();
  void Queue(StreamHandle stream, std::function<void()> work);

  struct Counts {
    std::uint64_t copies = 0;
    std::uint64_t copied_bytes = 0;
    std::uint64_t launches = 0;
    std::uint64_t registered = 0;  // ranges at this moment
    std::uint64_t allocations = 0;
    std::uint64_t allocated_bytes = 0;  // at this moment
  };
  Counts counts() const;

 private:
  class Stream;
  struct Block {
    std::size_t bytes;
    bool pinned;
  };

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
