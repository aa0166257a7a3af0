#include "server/plan/cache/built_examples.h"

#include <algorithm>
#include <utility>

namespace millrace {
namespace {

/// What waits to be written may have half as many bytes as the memory, or this if that is more.
constexpr std::uint64_t kLeastUnchecked = std::uint64_t{16} << 20;

}  // namespace

BuiltExamples::BuiltExamples(std::uint64_t memory_bytes, std::unique_ptr<DiskCache> disk)
    : configured_memory_(memory_bytes),
      has_disk_(disk != nullptr),
      cache_(memory_bytes, std::move(disk)),
      memory_limit_(memory_bytes) {
  if (has_disk_) writer_ = std::jthread([this](const std::stop_token& stop) { WriteLoop(stop); });
}

BuiltExamples::~BuiltExamples() {
  const MutexLock lock(mutex_);
  writer_.request_stop();
  changed_.NotifyAll();
}

ExamplePtr BuiltExamples::Find(const Digest128& key, CacheLevel level) {
  return level == CacheLevel::kDisk ? cache_.Find(key) : cache_.memory().Find(key);
}

void BuiltExamples::FindAll(std::span<const Digest128> keys, std::span<ExamplePtr> values,
                            CacheLevel level) {
  if (level == CacheLevel::kDisk) return cache_.FindAll(keys, values);
  cache_.memory().FindAll(keys, values);
}

void BuiltExamples::Add(std::span<const BuiltExample> built, CacheLevel level,
                        std::uint64_t damages) {
  const MutexLock lock(mutex_);
  if (damages != damages_) return;
  for (const BuiltExample& example : built) cache_.memory().Add(example.key, example.bytes);
  if (level == CacheLevel::kDisk && has_disk_) Wait({built.begin(), built.end()});
}

void BuiltExamples::Wait(UncheckedExamples examples) {
  const std::uint64_t limit = std::max(memory_limit_ / 2, kLeastUnchecked);
  for (BuiltExample& example : examples) {
    const std::uint64_t bytes = example.bytes->heap_bytes();
    if (unchecked_bytes_ + bytes > limit) {
      ++unwritten_;
      continue;
    }
    unchecked_bytes_ += bytes;
    unchecked_.push_back(std::move(example));
  }
}

UncheckedExamples BuiltExamples::TakeUnchecked() {
  const MutexLock lock(mutex_);
  unchecked_bytes_ = 0;
  return std::exchange(unchecked_, {});
}

void BuiltExamples::Reconcile(UncheckedExamples examples, FilesFound found) {
  const MutexLock lock(mutex_);
  switch (found) {
    case FilesFound::kUnknown:
      return Wait(std::move(examples));
    case FilesFound::kIntact:
      if (to_write_.empty()) {
        to_write_ = std::move(examples);
      } else {
        to_write_.insert(to_write_.end(), examples.begin(), examples.end());
      }
      return changed_.NotifyAll();
    case FilesFound::kDamaged:
      break;
  }
  ++damages_;
  unchecked_.clear();
  unchecked_bytes_ = 0;
  cache_.memory().SetLimit(0);
  cache_.memory().SetLimit(memory_limit_);
}

void BuiltExamples::WriteLoop(const std::stop_token& stop) {
  cache_.disk()->Scan();
  MutexLock lock(mutex_);
  while (true) {
    writing_ = !to_write_.empty();
    if (!writing_) {
      changed_.NotifyAll();
      if (stop.stop_requested()) return;
      changed_.Wait(mutex_);
      continue;
    }
    const std::vector<BuiltExample> examples = std::exchange(to_write_, {});
    lock.Unlock();
    for (const BuiltExample& example : examples) {
      cache_.disk()->Add(example.key, example.bytes->bytes());
    }
    lock.Lock();
  }
}

void BuiltExamples::Flush() {
  const MutexLock lock(mutex_);
  while (has_disk_ && (writing_ || !to_write_.empty())) changed_.Wait(mutex_);
}

void BuiltExamples::SetMemoryLimit(std::uint64_t bytes) {
  const MutexLock lock(mutex_);
  memory_limit_ = bytes;
  cache_.memory().SetLimit(bytes);
}

BuiltExamples::Stats BuiltExamples::stats() const {
  Stats stats;
  stats.cache = cache_.stats();
  stats.builds = builds_;
  const MutexLock lock(mutex_);
  stats.unwritten = unwritten_;
  return stats;
}

}  // namespace millrace
