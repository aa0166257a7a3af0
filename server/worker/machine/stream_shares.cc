#include "server/worker/machine/stream_shares.h"

#include <algorithm>
#include <cmath>

namespace millrace {
namespace {

constexpr double kSlotsOfThread = 2;
constexpr double kSlotSeconds = 0.2;  // what a worker builds in this time may be asked of it
constexpr double kMostSlots = 1e6;
constexpr double kRounding = 1e-9;

}  // namespace

void StreamShares::Add(BatchStreamId stream, const std::string& job) {
  if (!streams_.emplace(stream, Stream{job}).second) return;
  ++jobs_[job].streams;
}

void StreamShares::Remove(BatchStreamId stream) {
  const auto found = streams_.find(stream);
  if (found == streams_.end()) return;
  SetAsks(stream, false);
  const auto job = jobs_.find(found->second.job);
  if (--job->second.streams == 0) jobs_.erase(job);
  streams_.erase(found);
}

void StreamShares::SetWeight(const std::string& name, double weight) {
  Job& job = jobs_.at(name);
  if (job.asking > 0) asking_weight_ += weight - job.weight;
  job.weight = weight;
}

void StreamShares::SetAsks(BatchStreamId id, bool asks) {
  Stream& stream = streams_.at(id);
  if (stream.asks == asks) return;
  stream.asks = asks;
  Job& job = jobs_.at(stream.job);
  if (asks && job.asking++ == 0) asking_weight_ += job.weight;
  if (!asks && --job.asking == 0) asking_weight_ -= job.weight;
}

double StreamShares::Of(BatchStreamId id) const {
  const Stream& stream = streams_.at(id);
  const Job& job = jobs_.at(stream.job);
  const double weights = asking_weight_ + (job.asking == 0 ? job.weight : 0);
  const auto streams = static_cast<double>(job.asking + (stream.asks ? 0 : 1));
  return job.weight / weights / streams;
}

std::uint32_t SlotsOfWorker(const WorkerCapacity& capacity) {
  const double threads = capacity.threads;
  double slots = kSlotsOfThread * threads;
  if (capacity.batch_seconds > 0) {
    slots = std::max(slots, std::floor(threads * kSlotSeconds / capacity.batch_seconds));
  }
  if (capacity.batch_bytes > 0) {
    slots = std::min(slots,
                     std::floor(static_cast<double>(capacity.memory_bytes) / capacity.batch_bytes));
  }
  return static_cast<std::uint32_t>(std::min(slots, kMostSlots));
}

std::uint32_t SlotsOfStream(std::uint32_t of_worker, double share) {
  return std::max(1u, static_cast<std::uint32_t>(std::ceil(of_worker * share - kRounding)));
}

std::uint32_t ThreadsMilli(int threads, double share) {
  return std::max(1u, static_cast<std::uint32_t>(std::lround(threads * share * 1000)));
}

}  // namespace millrace
