#include "server/plan/cache/example_cache.h"

namespace millrace {

ExamplePtr ExampleCache::Find(const Digest128& key) {
  ExamplePtr value = memory_.Find(key);
  return value != nullptr ? value : FindOnDisk(key);
}

void ExampleCache::FindAll(std::span<const Digest128> keys, std::span<ExamplePtr> values) {
  memory_.FindAll(keys, values);
  if (disk_ == nullptr) return;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (values[i] == nullptr) values[i] = FindOnDisk(keys[i]);
  }
}

ExamplePtr ExampleCache::FindOnDisk(const Digest128& key) {
  if (disk_ == nullptr) return nullptr;
  ExamplePtr value = disk_->Find(key);
  if (value == nullptr) return nullptr;
  return memory_.Add(key, std::move(value)).value;
}

ExamplePtr ExampleCache::Add(const Digest128& key, ExamplePtr value) {
  const std::span<const std::byte> bytes = value->bytes();
  const ExamplePtr held = value;  // another one may be kept in memory
  ExamplePtr kept = memory_.Add(key, std::move(value)).value;
  // A key that is in memory may have been removed from the disk.
  if (disk_ != nullptr) disk_->Add(key, bytes);
  return kept;
}

ExampleCacheStats ExampleCache::stats() const {
  ExampleCacheStats stats;
  stats.memory = memory_.stats();
  if (disk_ != nullptr) stats.disk = disk_->stats();
  return stats;
}

}  // namespace millrace
