#include "server/plan/cache/memory_cache.h"

#include <algorithm>
#include <utility>

namespace millrace {

std::uint64_t MemoryCache::Charge(const ExampleBytes& value) {
  // A node of the table has a pointer besides key and entry. There are up to two buckets a node.
  constexpr std::size_t kNode =
      ExampleBytes::HeapBytes(sizeof(void*) + sizeof(Digest128) + sizeof(Entry));
  constexpr std::size_t kBuckets = 2 * sizeof(void*);
  return kNode + kBuckets + value.heap_bytes();
}

void MemoryCache::Shard::Unlink(Entry& entry) {
  (entry.older != nullptr ? entry.older->newer : oldest) = entry.newer;
  (entry.newer != nullptr ? entry.newer->older : newest) = entry.older;
  oldest_used = oldest != nullptr ? oldest->used : kNever;
}

void MemoryCache::Shard::Append(Entry& entry, std::uint64_t use) {
  entry.used = use;
  entry.older = newest;
  entry.newer = nullptr;
  (newest != nullptr ? newest->newer : oldest) = &entry;
  newest = &entry;
  oldest_used = oldest->used;
}

ExamplePtr MemoryCache::Use(Shard& shard, const Digest128& key) {
  const auto found = shard.entries.find(key);
  if (found == shard.entries.end()) return nullptr;
  Entry& entry = found->second;
  shard.Unlink(entry);
  shard.Append(entry, uses_.fetch_add(1, std::memory_order_relaxed));
  return entry.value;
}

ExamplePtr MemoryCache::Find(const Digest128& key) {
  Shard& shard = ShardOf(key);
  const MutexLock lock(shard.mutex);
  ExamplePtr value = Use(shard, key);
  ++(value != nullptr ? shard.hits : shard.misses);
  return value;
}

void MemoryCache::FindAll(std::span<const Digest128> keys, std::span<ExamplePtr> values) {
  for (std::size_t done = 0; done < keys.size(); done += kKeysAtOnce) {
    const std::size_t count = std::min(kKeysAtOnce, keys.size() - done);
    FindSome(keys.subspan(done, count), values.subspan(done, count));
  }
}

void MemoryCache::FindSome(std::span<const Digest128> keys, std::span<ExamplePtr> values) {
  // The numbers of the keys, by shard.
  std::array<std::uint16_t, kKeysAtOnce> order;
  std::array<std::uint16_t, kShards + 1> begins{};
  for (const Digest128& key : keys) ++begins[key.high % kShards + 1];
  for (std::size_t s = 0; s < kShards; ++s) begins[s + 1] += begins[s];
  std::array<std::uint16_t, kShards> next;
  std::copy_n(begins.begin(), kShards, next.begin());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    order[next[keys[i].high % kShards]++] = static_cast<std::uint16_t>(i);
  }
  std::array<Entry*, kKeysAtOnce> found;
  for (std::size_t s = 0; s < kShards; ++s) {
    const std::span<const std::uint16_t> own(order.begin() + begins[s], order.begin() + next[s]);
    if (own.empty()) continue;
    Shard& shard = shards_[s];
    const MutexLock lock(shard.mutex);
    std::uint64_t use = uses_.fetch_add(own.size(), std::memory_order_relaxed);
    for (const std::uint16_t i : own) {
      const auto entry = shard.entries.find(keys[i]);
      found[i] = entry == shard.entries.end() ? nullptr : &entry->second;
      if (found[i] == nullptr) continue;
      __builtin_prefetch(found[i]->value.get(), 1);  // its count of owners lies beside it
      __builtin_prefetch(found[i]->older, 1);
      __builtin_prefetch(found[i]->newer, 1);
    }
    for (const std::uint16_t i : own) {
      if (found[i] == nullptr) {
        ++shard.misses;
        continue;
      }
      ++shard.hits;
      shard.Unlink(*found[i]);
      shard.Append(*found[i], use++);
      values[i] = found[i]->value;
    }
  }
}

MemoryCache::Added MemoryCache::Add(const Digest128& key, ExamplePtr value) {
  Shard& shard = ShardOf(key);
  const std::uint64_t charge = Charge(*value);
  {
    const MutexLock lock(shard.mutex);
    if (ExamplePtr kept = Use(shard, key)) return {std::move(kept), false};
  }
  if (!Reserve(charge)) {
    const MutexLock lock(shard.mutex);
    ++shard.refusals;
    return {std::move(value), false};
  }
  {
    MutexLock lock(shard.mutex);
    if (ExamplePtr kept = Use(shard, key)) {  // another thread has added it meanwhile
      lock.Unlock();
      bytes_ -= charge;
      return {std::move(kept), false};
    }
    const auto added = shard.entries.try_emplace(key).first;
    added->second.value = value;
    added->second.key = &added->first;
    shard.Append(added->second, uses_.fetch_add(1, std::memory_order_relaxed));
    ++shard.additions;
  }
  // SetLimit cannot evict a value between its reservation and its entry.
  EvictBeyondLimit();
  return {std::move(value), true};
}

bool MemoryCache::Reserve(std::uint64_t bytes) {
  std::uint64_t used = bytes_;
  while (true) {
    const std::uint64_t limit = limit_;
    if (bytes > limit) return false;
    if (used <= limit - bytes) {
      if (bytes_.compare_exchange_weak(used, used + bytes)) return true;
      continue;
    }
    if (!EvictOldest()) return false;  // the rest is being added by other threads
    used = bytes_;
  }
}

bool MemoryCache::EvictOldest() {
  while (true) {
    Shard* victim = nullptr;
    std::uint64_t oldest = kNever;
    for (Shard& shard : shards_) {
      const std::uint64_t used = shard.oldest_used;
      if (used < oldest) {
        oldest = used;
        victim = &shard;
      }
    }
    if (victim == nullptr) return false;
    ExamplePtr value;
    {
      const MutexLock lock(victim->mutex);
      if (victim->oldest == nullptr) continue;  // another thread was faster
      Entry& entry = *victim->oldest;
      victim->Unlink(entry);
      value = std::move(entry.value);
      const Digest128 key = *entry.key;
      victim->entries.erase(key);
      ++victim->evictions;
    }
    const std::uint64_t charge = Charge(*value);
    value.reset();  // before its bytes are counted as free
    bytes_ -= charge;
    return true;
  }
}

void MemoryCache::EvictBeyondLimit() {
  while (bytes_ > limit_ && EvictOldest()) {
  }
}

void MemoryCache::SetLimit(std::uint64_t limit_bytes) {
  const bool shrinks = limit_bytes < limit_.exchange(limit_bytes);
  EvictBeyondLimit();
  if (!shrinks) return;
  for (Shard& shard : shards_) {
    const MutexLock lock(shard.mutex);
    shard.entries.rehash(0);  // gives back what the table has for evicted entries
  }
}

MemoryCacheStats MemoryCache::stats() const {
  MemoryCacheStats stats;
  for (const Shard& shard : shards_) {
    const MutexLock lock(shard.mutex);
    stats.hits += shard.hits;
    stats.misses += shard.misses;
    stats.additions += shard.additions;
    stats.evictions += shard.evictions;
    stats.refusals += shard.refusals;
    stats.entries += shard.entries.size();
  }
  stats.bytes = bytes_;
  stats.limit_bytes = limit_;
  return stats;
}

}  // namespace millrace
