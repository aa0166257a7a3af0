#include "client/session/run/prefetcher.h"

#include <utility>

namespace millrace::client {
namespace {

std::uint64_t BytesOf(const Result<ExpandedBatch>& batch) {
  std::uint64_t bytes = 0;
  if (!batch.ok()) return bytes;
  for (const auto& one : batch->micro_batches) bytes += one->bytes().size();
  return bytes;
}

}  // namespace

Prefetcher::Prefetcher(std::shared_ptr<Device> device, std::uint32_t micro,
                       const ExpandDepth& depth, const Tracer& tracer,
                       std::function<void()> on_ready)
    : device_(std::move(device)),
      micro_(micro),
      depth_(depth),
      tracer_(tracer),
      on_ready_(std::move(on_ready)),
      thread_([this] { Run(); }) {}

Prefetcher::~Prefetcher() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
  }
  changed_.NotifyAll();
  thread_.join();
}

void Prefetcher::Push(std::uint64_t step, std::shared_ptr<const PackedBatch> batch,
                      bool loop_waits) {
  MutexLock lock(mutex_);
  packed_.emplace(step, std::move(batch));
  if (step == expand_ && !loop_waits) changed_.NotifyAll();
}

std::optional<Result<ExpandedBatch>> Prefetcher::TryTake(std::uint64_t step) {
  MutexLock lock(mutex_);
  const auto it = ready_.find(step);
  if (it == ready_.end()) return std::nullopt;
  Result<ExpandedBatch> taken = std::move(it->second);
  ready_.erase(it);
  ready_bytes_ -= BytesOf(taken);
  next_ = step + 1;
  changed_.NotifyAll();
  return taken;
}

std::shared_ptr<const PackedBatch> Prefetcher::TakePacked(std::uint64_t step) {
  MutexLock lock(mutex_);
  const auto it = packed_.find(step);
  if (it == packed_.end() || expand_ != step) return nullptr;
  std::shared_ptr<const PackedBatch> packed = std::move(it->second);
  packed_.erase(it);
  next_ = expand_ = step + 1;
  if (packed_.contains(expand_)) changed_.NotifyAll();
  return packed;
}

Result<ExpandedBatch> Prefetcher::Expand(std::shared_ptr<const PackedBatch> packed) {
  const Time began = tracer_.Begin();
  const bool traced = began != Time{};
  OperationTimes times(tracer_,
                       traced ? device_->host_phases(delivery_) : std::span<const std::string>());
  const Delivery delivery = traced ? delivery_.WatchedBy(&times) : delivery_;
  std::vector<std::shared_ptr<const DeliveredBatch>> micro_batches(micro_);
  for (std::uint32_t i = 0; i < micro_; ++i) {
    const RowRange rows = RowsOfMicroBatch(packed->examples(), i, micro_);
    MILLRACE_ASSIGN_OR_RETURN(micro_batches[i], device_->Expand(packed, delivery, rows));
  }
  return ExpandedBatch{std::move(packed), std::move(micro_batches), began,
                       tracer_.Begin(),   Tracer::ThreadLane(),     times.Take()};
}

bool Prefetcher::HasRoom() const {
  if (depth_.batches > 0 && expand_ == next_) return true;  // it is the loop's next batch
  return expand_ < next_ + depth_.batches && ready_bytes_ < depth_.bytes;
}

void Prefetcher::Run() {
  MutexLock lock(mutex_);
  while (!stopping_) {
    const auto it = packed_.find(expand_);
    if (it == packed_.end() || !HasRoom()) {
      changed_.Wait(mutex_);
      continue;
    }
    std::shared_ptr<const PackedBatch> packed = std::move(it->second);
    packed_.erase(it);
    const std::uint64_t step = expand_++;
    lock.Unlock();
    Result<ExpandedBatch> expanded = Expand(std::move(packed));
    lock.Lock();
    ready_bytes_ += BytesOf(expanded);
    ready_.emplace(step, std::move(expanded));
    lock.Unlock();
    on_ready_();
    lock.Lock();
  }
}

}  // namespace millrace::client
