// Built examples: in memory, and behind that, if configured, on disk.
//
// A key is made by the caller: a digest of everything that the bytes depend on. The cache trusts
// that equal keys have equal bytes.
//
//   ExampleCache cache(options.cache_bytes, std::move(disk));
//   ExamplePtr example = cache.Find(key);
//   if (example == nullptr) example = cache.Add(key, ExampleBytes::Copy(Build(…)));
//   Read(example->bytes());  // also while others evict it
//
// Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "common/base/ids.h"
#include "server/plan/cache/disk_cache.h"
#include "server/plan/cache/example_bytes.h"
#include "server/plan/cache/memory_cache.h"

namespace millrace {

struct ExampleCacheStats {
  MemoryCacheStats memory;
  std::optional<DiskCacheStats> disk;

  std::uint64_t hits() const { return memory.hits + (disk ? disk->hits : 0); }
  /// Lookups that found nothing anywhere.
  std::uint64_t misses() const { return disk ? disk->misses : memory.misses; }
};

class ExampleCache {
 public:
  /// `disk` may be null.
  explicit ExampleCache(std::uint64_t limit_bytes, std::unique_ptr<DiskCache> disk = nullptr)
      : memory_(limit_bytes), disk_(std::move(disk)) {}

  /// Looks in memory, then on disk. A value found on disk is in memory from then on. Null if it is
  /// in neither.
  ExamplePtr Find(const Digest128& key);

  /// Find for many keys. REQUIRES: as many values as keys; all of them are null.
  void FindAll(std::span<const Digest128> keys, std::span<ExamplePtr> values);

  /// Keeps the value in memory and on disk. Returns the one that is kept for the key. REQUIRES:
  /// `value` is not null.
  ExamplePtr Add(const Digest128& key, ExamplePtr value);

  /// Sets the limit of the memory. When this returns, the cache counts at most this many bytes.
  void SetLimit(std::uint64_t limit_bytes) { memory_.SetLimit(limit_bytes); }

  /// The part in memory, for values that must not be on disk, or not yet.
  MemoryCache& memory() { return memory_; }
  /// Null if there is no disk cache.
  DiskCache* disk() { return disk_.get(); }

  ExampleCacheStats stats() const;

 private:
  /// A value that is found is in memory from then on.
  ExamplePtr FindOnDisk(const Digest128& key);

  MemoryCache memory_;
  const std::unique_ptr<DiskCache> disk_;
};

}  // namespace millrace
