#include "server/plan/cache/record_index.h"

#include <algorithm>

namespace millrace {

RecordIndex::RecordIndex(std::uint64_t limit_bytes, std::uint64_t seed) : limit_(limit_bytes) {
  for (std::size_t i = 0; i < kTables; ++i) tables_.push_back(std::make_unique<Table>(seed));
}

std::optional<RecordPlace> RecordIndex::Find(const Digest128& key) const {
  const Table& table = TableOf(key);
  const MutexLock lock(table.mutex);
  return table.index.Find(key);
}

bool RecordIndex::Insert(const Digest128& key, const RecordPlace& place) {
  Table& table = TableOf(key);
  const MutexLock lock(table.mutex);
  return table.index.Insert(key, place);
}

void RecordIndex::Erase(const Digest128& key, const RecordPlace& place) {
  Table& table = TableOf(key);
  const MutexLock lock(table.mutex);
  table.index.Erase(key, place);
}

bool RecordIndex::MakeRoom(const Digest128& key, const LiveSegments& live) {
  Table& table = TableOf(key);
  const MutexLock lock(table.mutex);
  DiskIndex& index = table.index;
  const std::size_t slots = index.slots();
  if (DiskIndex::Fits(index.LiveEntries(live) + 1, slots)) {
    index.Rebuild(slots, live);
    return true;
  }
  const std::size_t larger = std::max(slots * 2, DiskIndex::kFirstSlots);
  const std::uint64_t more = (larger - slots) * DiskIndex::kSlotBytes;
  std::uint64_t bytes = bytes_;
  do {
    if (bytes > limit_ || more > limit_ - bytes) return false;
  } while (!bytes_.compare_exchange_weak(bytes, bytes + more));
  index.Rebuild(larger, live);
  return true;
}

void RecordIndex::Clear() {
  const LiveSegments none(std::size_t{kMaxSegmentNumber} + 1);
  for (const auto& table : tables_) {
    const MutexLock lock(table->mutex);
    table->index.Rebuild(table->index.slots(), none);
  }
}

}  // namespace millrace
