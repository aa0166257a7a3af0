// The examples that a process has built, for all its plans: a cache in memory and on disk
// (ExampleCache), and the rule for writing to disk.
//
// Examples are made from mapped files. A check of the files, once a second, notices an overwritten
// file. Examples built meanwhile have names that stand for the old content, and may be wrong. So a
// value is written to disk only after a later check has found nothing damaged, and a check that
// finds damage empties the memory. The disk holds only right values.
//
//   const std::uint64_t damages = examples.damages();
//   … build …
//   examples.Add(built, CacheLevel::kDisk, damages);
//
//   UncheckedExamples unchecked = examples.TakeUnchecked();
//   … check the files …
//   examples.Reconcile(std::move(unchecked), FilesFound::kIntact);
//
// A thread of the object reads the folder in the beginning, and writes to it.
//
// Thread-safe.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stop_token>
#include <thread>
#include <vector>

#include "common/base/ids.h"
#include "common/system/mutex.h"
#include "server/plan/cache/cache_part.h"
#include "server/plan/cache/example_cache.h"

namespace millrace {

struct BuiltExample {
  Digest128 key;
  ExamplePtr bytes;
};
using UncheckedExamples = std::vector<BuiltExample>;

/// The result of a check of the files.
enum class FilesFound : std::uint8_t {
  kIntact,
  kDamaged,
  kUnknown,  // it was ended early
};

class BuiltExamples {
 public:
  struct Stats {
    ExampleCacheStats cache;
    std::uint64_t builds = 0;     // examples that the cache did not have
    std::uint64_t unwritten = 0;  // not written to disk, because too many waited for a check
  };

  /// `disk` may be null.
  explicit BuiltExamples(std::uint64_t memory_bytes, std::unique_ptr<DiskCache> disk = nullptr);
  /// Waits until all examples found right are on disk.
  ~BuiltExamples();
  BuiltExamples(const BuiltExamples&) = delete;
  BuiltExamples& operator=(const BuiltExamples&) = delete;

  bool has_disk() const { return has_disk_; }

  /// Null if it is not there. Looks on disk only at level kDisk.
  ExamplePtr Find(const Digest128& key, CacheLevel level);
  /// The same for many keys, which is faster. REQUIRES: as many values as keys; all are null.
  void FindAll(std::span<const Digest128> keys, std::span<ExamplePtr> values, CacheLevel level);

  /// How often damage was found. Read it before examples are built.
  std::uint64_t damages() const { return damages_.load(std::memory_order_acquire); }
  /// Keeps built examples. Does nothing if damage was found since `damages` was read.
  void Add(std::span<const BuiltExample> built, CacheLevel level, std::uint64_t damages);
  /// Counts examples that were built because the cache did not have them.
  void CountBuilds(std::uint64_t examples) { builds_ += examples; }

  /// The examples that wait to be written. Take them before the files are checked.
  UncheckedExamples TakeUnchecked();
  /// The files were checked after `examples` were taken. If they are intact, the examples will be
  /// written. If they are damaged, everything in memory is forgotten too. Otherwise the examples
  /// wait for the next check.
  void Reconcile(UncheckedExamples examples, FilesFound found);
  /// Waits until the folder was read, and the examples found right until now are on disk.
  void Flush();

  void SetMemoryLimit(std::uint64_t bytes);
  /// The limit at construction.
  std::uint64_t configured_memory() const { return configured_memory_; }

  Stats stats() const;

 private:
  void WriteLoop(const std::stop_token& stop);
  void Wait(UncheckedExamples examples) MILLRACE_REQUIRES(mutex_);

  const std::uint64_t configured_memory_;
  const bool has_disk_;
  ExampleCache cache_;
  std::atomic<std::uint64_t> builds_{0};
  std::atomic<std::uint64_t> damages_{0};
  std::atomic<std::uint64_t> memory_limit_;

  mutable Mutex mutex_;
  CondVar changed_;
  UncheckedExamples unchecked_ MILLRACE_GUARDED_BY(mutex_);
  std::uint64_t unchecked_bytes_ MILLRACE_GUARDED_BY(mutex_) = 0;
  std::uint64_t unwritten_ MILLRACE_GUARDED_BY(mutex_) = 0;
  std::vector<BuiltExample> to_write_ MILLRACE_GUARDED_BY(mutex_);
  bool writing_ MILLRACE_GUARDED_BY(mutex_) = true;  // or reading the folder

  std::jthread writer_;  // the last member: it ends first
};

}  // namespace millrace
