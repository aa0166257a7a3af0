// The segments that a disk cache knows: their sizes, when they were used, and which are open.
//
// Not thread-safe. Pointers to segments are valid until the segment is dropped.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "server/files/file_io.h"
#include "server/plan/cache/disk_index.h"

namespace millrace {

struct Segment {
  std::uint32_t number = 0;  // in this table; it is not in the file
  std::string name;
  std::uint64_t bytes = 0;  // of the file; its largest size while it is being written here
  std::int64_t used_ns = 0;
  std::uint64_t read_to = 0;  // records before this are in the index
  bool writing = false;       // by this cache
  bool forgotten = false;     // its records are not in the index, which has no room
  bool unread = false;        // its header is not checked yet, so it has no records either
  bool touch = false;         // used since its file's time was set
  std::shared_ptr<const FileDescriptor> file;  // null: not open
};

class SegmentTable {
 public:
  /// Numbers are never used twice. At most `open_files` of the segments are open.
  SegmentTable(std::uint32_t max_number, std::size_t open_files)
      : max_number_(max_number), open_files_(open_files) {}

  /// Null if there is no number left. REQUIRES: no segment has the name.
  Segment* Add(const std::string& name, std::uint64_t bytes, std::int64_t used_ns);
  void Drop(std::uint32_t number);
  /// Drops all segments, and begins again with number 1.
  void Clear();

  /// Null if there is no such segment.
  Segment* Find(std::uint32_t number);
  Segment* Find(const std::string& name);
  /// The segment that was used longest ago, among segments that are not being written
  /// (for_removal), or among segments that have records.
  Segment* Oldest(bool for_removal);

  void Resize(Segment& segment, std::uint64_t bytes);
  /// Keeps the file open, and closes the file that was opened longest ago if too many are open.
  void KeepOpen(Segment& segment, std::shared_ptr<const FileDescriptor> file);

  /// Segments with records in the index.
  LiveSegments Live() const;
  std::unordered_map<std::uint32_t, Segment>& all() { return segments_; }
  std::size_t size() const { return segments_.size(); }
  /// Bytes of all segments.
  std::uint64_t bytes() const { return bytes_; }
  std::uint32_t next_number() const { return next_; }
  bool HasNumbers() const { return next_ <= max_number_; }

 private:
  const std::uint32_t max_number_;
  const std::size_t open_files_;
  std::unordered_map<std::uint32_t, Segment> segments_;
  std::unordered_map<std::string, std::uint32_t> numbers_;  // by name
  std::deque<std::uint32_t> open_;                          // maybe with segments that are gone
  std::uint64_t bytes_ = 0;
  std::uint32_t next_ = 1;
};

}  // namespace millrace
