// Bytes of examples in a folder, within a limit. The folder may be lost, damaged, full, read-only,
// or in use by other processes: this costs time, and never gives wrong bytes.
//
// Records are appended to segments, files of some MiB (docs/formats/cache.md). Each cache writes
// segments of its own and reads all segments. A value is given out only if record, key and digest
// agree. The segment that was used longest ago is removed first, also if another process wrote it:
// a process sets the time of a file that it uses.
//
// Nothing is synced: examples that a crash of the machine destroys are built again. Files are read
// with pread, because a mapped file can be truncated under its reader.
//
// Thread-safe. No call waits for another one that reads or writes, except that an addition waits
// while a new segment is begun. REQUIRES: no call is under way at destruction.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_set>
#include <vector>

#include "common/base/ids.h"
#include "common/base/log.h"
#include "common/system/clock.h"
#include "common/system/mutex.h"
#include "server/plan/cache/cache_files.h"
#include "server/plan/cache/example_bytes.h"
#include "server/plan/cache/rare_warning.h"
#include "server/plan/cache/record_index.h"
#include "server/plan/cache/segment_table.h"
#include "server/plan/cache/segment_writer.h"

namespace millrace {

struct DiskCacheOptions {
  std::filesystem::path folder;  // made if it is missing; files of other names are left alone
  /// The most bytes of all segments in the folder. Other processes may each exceed it by one
  /// segment, because they check the folder only before they begin one.
  std::uint64_t limit_bytes = 0;
  /// 0: a sixteenth of the limit; at least 4 MiB, or a quarter of a small limit; at most 64 MiB.
  /// Never more than the limit and kMaxSegmentBytes.
  std::uint64_t segment_bytes = 0;
  /// Memory of the index: 20 to 40 bytes per record. If it does not suffice for all records, the
  /// records of the oldest segments are not found.
  std::uint64_t index_bytes = std::uint64_t{256} << 20;
  std::size_t open_files = 256;                       // at most so many segments are open
  std::uint32_t segment_numbers = kMaxSegmentNumber;  // after so many, the folder is read again
};

struct DiskCacheStats {
  std::uint64_t hits = 0;
  std::uint64_t misses = 0;
  std::uint64_t writes = 0;     // records
  std::uint64_t skipped = 0;    // additions not written: too large, or soon after a failure
  std::uint64_t failures = 0;   // of files: cannot be read or written, damaged records
  std::uint64_t evictions = 0;  // segments that this cache removed to make room
  std::uint64_t segments = 0;
  std::uint64_t bytes = 0;  // of all segments, with the room of segments being written
  std::uint64_t limit_bytes = 0;
  std::uint64_t index_bytes = 0;
};

class DiskCache {
 public:
  /// No writes are tried for so long after one has failed.
  static constexpr Duration kPause = std::chrono::seconds(10);

  DiskCache(DiskCacheOptions options, std::shared_ptr<CacheFiles> files,
            std::shared_ptr<const Clock> clock, std::shared_ptr<Logger> logger);
  ~DiskCache();
  DiskCache(const DiskCache&) = delete;
  DiskCache& operator=(const DiskCache&) = delete;

  /// Finds the segments that other processes have written and removed, and removes the oldest
  /// beyond the limit. Call it once in the beginning: before that, no record of an earlier run is
  /// found. It reads 24 bytes per record; other calls may run meanwhile. From then on the cache
  /// calls it itself: before it begins a segment, and after every kLookupsAScan lookups.
  void Scan();

  /// Null if the key is not there, or cannot be read.
  ExamplePtr Find(const Digest128& key);

  /// Writes the value, unless the key is there.
  void Add(const Digest128& key, std::span<const std::byte> value);

  DiskCacheStats stats() const;

  static constexpr std::uint64_t kLookupsAScan = std::uint64_t{1} << 16;

 private:
  struct KeyHash {  // keys are digests, so any part of them is a good hash
    std::size_t operator()(const Digest128& key) const noexcept { return key.low; }
  };
  struct Reserved {
    std::shared_ptr<SegmentWriter> writer;
    std::uint64_t offset;
  };

  std::filesystem::path PathOf(const std::string& name) const { return options_.folder / name; }

  // disk_cache.cc
  ExamplePtr Read(const Digest128& key, const RecordPlace& place);
  /// Null if the segment is gone or cannot be opened.
  std::shared_ptr<const FileDescriptor> OpenSegment(std::uint32_t number);
  bool IsKnown(const Digest128& key);
  /// Adds to the index, and forgets the oldest segments for it. False if there is no room.
  bool Insert(const Digest128& key, const RecordPlace& place);
  bool ForgetOldest(std::uint32_t except);
  std::int64_t NextUse() MILLRACE_REQUIRES(mutex_);
  void ReadFailed(const Status& status);
  void WriteFailed(const Status& status);

  // disk_cache_write.cc
  /// nullopt if the key is known or being written, or if no segment can be begun.
  std::optional<Reserved> Reserve(const Digest128& key, std::uint64_t bytes);
  std::optional<Reserved> ReserveInSegment(std::uint64_t bytes) MILLRACE_REQUIRES(writer_mutex_);
  Status BeginSegment() MILLRACE_REQUIRES(writer_mutex_);
  Result<FileDescriptor> CreateSegment(const std::string& name);
  /// Writes the table once no record is being written. Does nothing before that.
  void FinishSegment(const SegmentWriter& writer) MILLRACE_REQUIRES(writer_mutex_);

  // disk_cache_scan.cc
  /// An error if the folder could not be listed.
  Status ScanFolder();
  void TouchUsed();
  /// When the file was used, but not later than now. Uses here will count as later ones.
  std::int64_t UseOfFile(const CacheFiles::Found& file) MILLRACE_REQUIRES(mutex_);
  void ForgetMissing(const std::vector<CacheFiles::Found>& found, std::uint32_t known_before);
  void LoadFile(const CacheFiles::Found& file);
  void LoadRecords(const std::string& name, std::uint64_t bytes, const FileDescriptor& file);
  /// Removes the oldest segments until there is room for `bytes`.
  Status MakeRoom(std::uint64_t bytes);
  /// ResourceExhausted if there is no segment to remove.
  Status RemoveOldest();

  DiskCacheOptions options_;
  const std::shared_ptr<CacheFiles> files_;
  const std::shared_ptr<const Clock> clock_;
  const std::uint64_t owner_;  // random: in the names of segments
  RareWarning read_warning_;
  RareWarning write_warning_;
  RecordIndex index_;

  Mutex writer_mutex_;                                                        // taken before mutex_
  std::shared_ptr<SegmentWriter> writer_ MILLRACE_GUARDED_BY(writer_mutex_);  // null: no segment
  std::unordered_set<Digest128, KeyHash> being_written_ MILLRACE_GUARDED_BY(writer_mutex_);
  std::uint32_t next_file_ MILLRACE_GUARDED_BY(writer_mutex_) = 0;

  mutable Mutex mutex_;
  SegmentTable table_ MILLRACE_GUARDED_BY(mutex_);
  std::int64_t last_use_ns_ MILLRACE_GUARDED_BY(mutex_) = 0;

  std::atomic<bool> scanning_{false};
  std::atomic<bool> disk_full_{false};          // a segment goes before the next one begins
  std::atomic<Duration::rep> paused_until_{0};  // 0: no pause
  std::atomic<std::uint64_t> lookups_{0};
  std::atomic<std::uint64_t> hits_{0}, writes_{0}, skipped_{0}, failures_{0}, evictions_{0};
};

}  // namespace millrace
