#include "tests/support/host_accelerator.h"

#include <cstring>
#include <deque>
#include <new>
#include <thread>
#include <utility>

#include "common/batch/layout/layout.h"
#include "common/expand/compute_program.h"
#include "common/expand/expand_program.h"

namespace millrace {
namespace {

class HostEvent final : public Accelerator::Event, public std::enable_shared_from_this<HostEvent> {
 public:
  void Pass() {
    MutexLock lock(mutex_);
    passed_ = true;
    changed_.NotifyAll();
  }
  bool passed() const {
    MutexLock lock(mutex_);
    return passed_;
  }
  void Wait() const {
    MutexLock lock(mutex_);
    while (!passed_) changed_.Wait(mutex_);
  }

 private:
  mutable Mutex mutex_;
  mutable CondVar changed_;
  bool passed_ MILLRACE_GUARDED_BY(mutex_) = false;
};

const HostEvent& Cast(const Accelerator::Event& event) {
  return static_cast<const HostEvent&>(event);
}

}  // namespace

class HostAccelerator::Stream {
 public:
  Stream() : thread_([this] { Run(); }) {}
  ~Stream() {
    Queue(nullptr);
    thread_.join();
  }

  /// Queues work. nullptr ends the thread after everything that was queued before.
  void Queue(std::function<void()> work) {
    MutexLock lock(mutex_);
    queue_.push_back(std::move(work));
    changed_.NotifyAll();
  }

  std::shared_ptr<Event> Record() {
    auto event = std::make_shared<HostEvent>();
    Queue([event] { event->Pass(); });
    return event;
  }

 private:
  void Run() {
    MutexLock lock(mutex_);
    for (;;) {
      while (queue_.empty()) changed_.Wait(mutex_);
      const std::function<void()> work = std::move(queue_.front());
      queue_.pop_front();
      if (work == nullptr) return;
      lock.Unlock();
      work();
      lock.Lock();
    }
  }

  Mutex mutex_;
  CondVar changed_;
  std::deque<std::function<void()>> queue_ MILLRACE_GUARDED_BY(mutex_);
  std::thread thread_;
};

HostAccelerator::HostAccelerator(HostAcceleratorOptions options)
    : options_(std::move(options)), side_(std::make_shared<Stream>()) {}

HostAccelerator::~HostAccelerator() = default;

std::byte* HostAccelerator::Take(std::size_t bytes, bool pinned) {
  MutexLock lock(mutex_);
  std::uint64_t& used = pinned ? pinned_bytes_ : counts_.allocated_bytes;
  if (bytes > (pinned ? options_.pinned_bytes : options_.memory_bytes) - used) return nullptr;
  auto* const data = static_cast<std::byte*>(
      ::operator new(bytes, std::align_val_t(kTensorAlignment), std::nothrow));
  if (data == nullptr) return nullptr;
  used += bytes;
  if (!pinned) ++counts_.allocations;
  blocks_[data] = {bytes, pinned};
  return data;
}

void HostAccelerator::GiveBack(std::byte* data, bool pinned) {
  MutexLock lock(mutex_);
  const auto it = blocks_.find(data);
  (pinned ? pinned_bytes_ : counts_.allocated_bytes) -= it->second.bytes;
  blocks_.erase(it);
  ::operator delete(data, std::align_val_t(kTensorAlignment));
}

std::byte* HostAccelerator::Allocate(std::size_t bytes) { return Take(bytes, false); }
void HostAccelerator::Free(std::byte* data) { GiveBack(data, false); }
std::byte* HostAccelerator::AllocatePinned(std::size_t bytes) { return Take(bytes, true); }
void HostAccelerator::FreePinned(std::byte* data) { GiveBack(data, true); }

Status HostAccelerator::RegisterReadOnly(std::span<const std::byte> /*bytes*/) {
  if (!options_.registers_read_only) {
    return Unimplemented("the driver cannot register memory that may only be read");
  }
  MutexLock lock(mutex_);
  ++counts_.registered;
  return OkStatus();
}

void HostAccelerator::Unregister(std::span<const std::byte> /*bytes*/) {
  MutexLock lock(mutex_);
  --counts_.registered;
}

Status HostAccelerator::CopyIn(std::byte* to, std::span<const std::byte> from) {
  {
    MutexLock lock(mutex_);
    ++counts_.copies;
    counts_.copied_bytes += from.size();
  }
  side_->Queue([to, from] {
    if (!from.empty()) std::memcpy(to, from.data(), from.size());
  });
  return OkStatus();
}

template <class Launch>
Status HostAccelerator::QueueLaunch(const Launch& launch) {
  {
    MutexLock lock(mutex_);
    ++counts_.launches;
  }
  side_->Queue([launch] { RunOnHost(launch); });
  return OkStatus();
}

Status HostAccelerator::Expand(const kernel::Launch& launch) { return QueueLaunch(launch); }

Status HostAccelerator::Compute(const kernel::ComputeLaunch& launch) { return QueueLaunch(launch); }

Status HostAccelerator::WaitFor(const Event& event) {
  // As on a GPU, the event may be dropped while the stream still waits for it.
  side_->Queue([event = Cast(event).shared_from_this()] { event->Wait(); });
  return OkStatus();
}

Result<std::shared_ptr<Accelerator::Event>> HostAccelerator::Record() { return side_->Record(); }

Result<std::shared_ptr<Accelerator::Event>> HostAccelerator::RecordOn(StreamHandle stream) {
  if (stream == kDefaultStream) {
    auto event = std::make_shared<HostEvent>();
    event->Pass();
    return std::shared_ptr<Event>(std::move(event));
  }
  const std::shared_ptr<Stream> found = Find(stream);
  if (found == nullptr) return NotFound("no stream " + std::to_string(stream));
  return found->Record();
}

bool HostAccelerator::Passed(const Event& event) { return Cast(event).passed(); }

Status HostAccelerator::Synchronize(const Event& event) {
  Cast(event).Wait();
  return OkStatus();
}

std::shared_ptr<HostAccelerator::Stream> HostAccelerator::Find(StreamHandle stream) const {
  MutexLock lock(mutex_);
  const auto it = streams_.find(stream);
  return it == streams_.end() ? nullptr : it->second;
}

Accelerator::StreamHandle HostAccelerator::NewStream() {
  MutexLock lock(mutex_);
  const StreamHandle handle = 0x1000 + streams_.size();
  streams_[handle] = std::make_shared<Stream>();
  return handle;
}

void HostAccelerator::Queue(StreamHandle stream, std::function<void()> work) {
  Find(stream)->Queue(std::move(work));
}

HostAccelerator::Counts HostAccelerator::counts() const {
  MutexLock lock(mutex_);
  return counts_;
}

}  // namespace millrace
