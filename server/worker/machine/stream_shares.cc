#include "server/worker/machine/stream_shares.h"

#include <algorithm>
#include <cmath>

namespace millrace {
namespace {

constexpr double kSlotsOfThread = 2;
constexpr double kSlotSeconds = 0.2;  // what a worker builds in this time may be asked of it
constexpr double kMostTurnSlots = 1024;
constexpr double kMostSlots = 1e6;
constexpr double kShareRounding = 1e-9;

/// How many slots the worker has for its threads.
double SlotsOfThreads(const WorkerCapacity& capacity) {
  const double threads = capacity.threads;
  const double slots = kSlotsOfThread * threads;
  if (capacity.batch_seconds <= 0) return slots;
  return std::max(slots, std::floor(threads * kSlotSeconds / capacity.batch_seconds));
}

/// How many batches its memory has room for.
double BatchesInMemory(const WorkerCapacity& capacity) {
  if (capacity.batch_bytes <= 0) return kMostSlots;
  return std::floor(static_cast<double>(capacity.memory_bytes) / capacity.batch_bytes);
}

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
  if (asks && job.asking++ == 0) {
    asking_weight_ += job.weight;
    batch_seconds_.insert(job.batch_seconds);
  }
  if (!asks && --job.asking == 0) {
    asking_weight_ -= job.weight;
    batch_seconds_.erase(batch_seconds_.find(job.batch_seconds));
  }
}

void StreamShares::SetBatchSeconds(const std::string& name, double seconds) {
  const auto found = jobs_.find(name);
  if (found == jobs_.end()) return;
  Job& job = found->second;
  if (job.asking > 0) {
    batch_seconds_.erase(batch_seconds_.find(job.batch_seconds));
    batch_seconds_.insert(seconds);
  }
  job.batch_seconds = seconds;
}

double StreamShares::LongestOther(const Job& job) const {
  auto longest = batch_seconds_.rbegin();
  const bool own =
      job.asking > 0 && longest != batch_seconds_.rend() && *longest == job.batch_seconds;
  if (own) ++longest;
  return longest == batch_seconds_.rend() ? 0 : *longest;
}

StreamShare StreamShares::Of(BatchStreamId id) const {
  const Stream& stream = streams_.at(id);
  const Job& job = jobs_.at(stream.job);
  const double others = asking_weight_ - (job.asking > 0 ? job.weight : 0);
  const auto streams = static_cast<double>(job.asking + (stream.asks ? 0 : 1));
  StreamShare share;
  share.of_worker = job.weight / (job.weight + others) / streams;
  if (others > 0) share.turn_seconds = job.weight / others * LongestOther(job) / streams;
  return share;
}

std::uint32_t SlotsOfWorker(const WorkerCapacity& capacity) {
  return static_cast<std::uint32_t>(
      std::min({SlotsOfThreads(capacity), BatchesInMemory(capacity), kMostSlots}));
}

std::uint32_t SlotsOfStream(const WorkerCapacity& capacity, const StreamShare& share) {
  double slots = SlotsOfThreads(capacity) * share.of_worker;
  if (share.turn_seconds > 0 && capacity.batch_seconds > 0) {
    // A turn that is shorter than a batch needs no slot besides the first one: many streams that each
    // have one more would be asked for far more than they can build in time.
    const double of_turn = 1 + std::floor(share.turn_seconds / capacity.batch_seconds);
    slots = std::max(slots, std::min(of_turn, kMostTurnSlots));
  }
  slots = std::min({slots, BatchesInMemory(capacity) * share.of_worker, kMostSlots});
  return std::max(1u, static_cast<std::uint32_t>(std::ceil(slots - kShareRounding)));
}

std::uint32_t ThreadsMilli(int threads, double of_worker) {
  return std::max(1u, static_cast<std::uint32_t>(std::lround(threads * of_worker * 1000)));
}

}  // namespace millrace
