// Bytes of examples in memory, within a limit that can change at any time. The least recently used
// go first, over all shards.
//
// Keys are spread over shards, each with a lock of its own, so that many threads rarely wait for
// each other. Uses are numbered over the whole cache. An eviction looks for the shard whose oldest
// example was used longest ago: with one thread, the order is exact.
//
// Thread-safe. Values that somebody holds may outlive the cache.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <unordered_map>

#include "common/base/ids.h"
#include "common/system/mutex.h"
#include "server/plan/cache/example_bytes.h"

namespace millrace {

struct MemoryCacheStats {
  std::uint64_t hits = 0;
  std::uint64_t misses = 0;
  std::uint64_t additions = 0;  // of keys that were not there
  std::uint64_t evictions = 0;
  std::uint64_t refusals = 0;  // additions for which there was no room, e.g. larger than the limit
  std::uint64_t entries = 0;
  std::uint64_t bytes = 0;  // with the overhead of the cache; at most the limit
  std::uint64_t limit_bytes = 0;
};

class MemoryCache {
 public:
  explicit MemoryCache(std::uint64_t limit_bytes) : limit_(limit_bytes) {}
  MemoryCache(const MemoryCache&) = delete;
  MemoryCache& operator=(const MemoryCache&) = delete;

  /// Null if the key is not there.
  ExamplePtr Find(const Digest128& key);
  /// The same for many keys, several times as fast: each shard is locked only once for some of
  /// them, and their reads of memory overlap. REQUIRES: as many values as keys.
  void FindAll(std::span<const Digest128> keys, std::span<ExamplePtr> values);

  struct Added {
    ExamplePtr value;     // the one that is kept, or `value` of the call if there is no room for it
    bool is_new = false;  // the call has added the key
  };
  /// Keeps the value, and evicts others for it. If the key is already there, its value stays and
  /// counts as used. Never null if `value` is not.
  Added Add(const Digest128& key, ExamplePtr value);

  /// When this returns, the cache has at most this many bytes. Memory of evicted values that
  /// somebody still holds is not free yet, and no longer counted.
  void SetLimit(std::uint64_t limit_bytes);

  MemoryCacheStats stats() const;

  /// Bytes that an example counts for: its value, its entry, and its part of the table.
  static std::uint64_t Charge(const ExampleBytes& value);

 private:
  static constexpr std::size_t kShards = 32;
  static constexpr std::size_t kKeysAtOnce = 512;
  static constexpr std::uint64_t kNever = std::numeric_limits<std::uint64_t>::max();

  struct Entry {
    ExamplePtr value;
    std::uint64_t used = 0;
    const Digest128* key = nullptr;
    Entry* older = nullptr;
    Entry* newer = nullptr;
  };
  struct KeyHash {  // keys are digests, so any part of them is a good hash
    std::size_t operator()(const Digest128& key) const noexcept { return key.low; }
  };
  struct alignas(64) Shard {
    mutable Mutex mutex;
    std::unordered_map<Digest128, Entry, KeyHash> entries MILLRACE_GUARDED_BY(mutex);
    Entry* oldest MILLRACE_GUARDED_BY(mutex) = nullptr;
    Entry* newest MILLRACE_GUARDED_BY(mutex) = nullptr;
    std::uint64_t hits MILLRACE_GUARDED_BY(mutex) = 0;
    std::uint64_t misses MILLRACE_GUARDED_BY(mutex) = 0;
    std::uint64_t additions MILLRACE_GUARDED_BY(mutex) = 0;
    std::uint64_t evictions MILLRACE_GUARDED_BY(mutex) = 0;
    std::uint64_t refusals MILLRACE_GUARDED_BY(mutex) = 0;
    // When `oldest` was used: evictions read it without the lock.
    std::atomic<std::uint64_t> oldest_used{kNever};

    void Unlink(Entry& entry) MILLRACE_REQUIRES(mutex);
    void Append(Entry& entry, std::uint64_t use) MILLRACE_REQUIRES(mutex);
  };

  Shard& ShardOf(const Digest128& key) { return shards_[key.high % kShards]; }
  /// FindAll for at most kKeysAtOnce keys.
  void FindSome(std::span<const Digest128> keys, std::span<ExamplePtr> values);
  /// The value of the key, which now counts as used; null if it is not there.
  ExamplePtr Use(Shard& shard, const Digest128& key) MILLRACE_REQUIRES(shard.mutex);
  /// Counts bytes of a value that will be added, and evicts others until there is room. False if
  /// there cannot be room.
  bool Reserve(std::uint64_t bytes);
  /// False if no value is left.
  bool EvictOldest();
  void EvictBeyondLimit();

  std::array<Shard, kShards> shards_;
  alignas(64) std::atomic<std::uint64_t> uses_{0};
  alignas(64) std::atomic<std::uint64_t> bytes_{0};  // also of values that are being added
  std::atomic<std::uint64_t> limit_;
};

}  // namespace millrace
