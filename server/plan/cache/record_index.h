// Where all records of a disk cache are, within a limit of memory. Keys are spread over tables with
// locks of their own, so that threads rarely wait, and a table that grows holds up few of them.
//
// Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "common/base/ids.h"
#include "common/system/mutex.h"
#include "server/plan/cache/disk_index.h"

namespace millrace {

class RecordIndex {
 public:
  /// `seed`: see DiskIndex. While one of the tables grows, its old form, a hundredth of the whole,
  /// exceeds the limit.
  RecordIndex(std::uint64_t limit_bytes, std::uint64_t seed);

  std::optional<RecordPlace> Find(const Digest128& key) const;
  /// False if the table of the key is full: MakeRoom, and try again.
  [[nodiscard]] bool Insert(const Digest128& key, const RecordPlace& place);
  /// Removes the entry of the key, if it is still this one.
  void Erase(const Digest128& key, const RecordPlace& place);

  /// Makes room in the table of the key: drops entries of segments that are not live, or makes the
  /// table larger. False if the limit does not allow that.
  [[nodiscard]] bool MakeRoom(const Digest128& key, const LiveSegments& live);

  /// Removes all entries, and keeps the memory.
  void Clear();

  /// Memory of the tables, at most the limit.
  std::uint64_t bytes() const { return bytes_; }

 private:
  static constexpr std::size_t kTables = 64;

  struct alignas(64) Table {
    explicit Table(std::uint64_t seed) : index(seed) {}
    mutable Mutex mutex;
    DiskIndex index MILLRACE_GUARDED_BY(mutex);
  };

  Table& TableOf(const Digest128& key) const { return *tables_[key.high % kTables]; }

  const std::uint64_t limit_;
  std::vector<std::unique_ptr<Table>> tables_;
  std::atomic<std::uint64_t> bytes_{0};
};

}  // namespace millrace
