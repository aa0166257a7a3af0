// The segment that a disk cache is writing: which places are given out, and which records are
// there. Several threads write records at once, each to its own place.
//
// Not thread-safe, except for file() and the constants.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "server/files/file_io.h"
#include "server/plan/cache/cache_format.h"

namespace millrace {

class SegmentWriter {
 public:
  /// A file that has only its header. With table and trailer it will have at most `max_bytes`.
  SegmentWriter(std::uint32_t number, std::string name, std::shared_ptr<const FileDescriptor> file,
                std::uint64_t max_bytes)
      : number_(number), name_(std::move(name)), file_(std::move(file)), max_bytes_(max_bytes) {}

  /// The largest record in a segment of `max_bytes`.
  static std::uint64_t LargestRecord(std::uint64_t max_bytes) {
    const std::uint64_t rest = sizeof(SegmentHeader) + SegmentEndBytes(1);
    return max_bytes < rest ? 0 : std::min(max_bytes - rest, kMaxRecordBytes);
  }

  /// Where a record of `bytes` bytes is to be written; Wrote or Lost follows. nullopt if the
  /// segment is full.
  std::optional<std::uint64_t> Reserve(std::uint64_t bytes) {
    const std::uint64_t end = end_ + bytes;
    if (end + SegmentEndBytes(entries_.size() + pending_ + 1) > max_bytes_) return std::nullopt;
    ++pending_;
    return std::exchange(end_, end);
  }
  void Wrote(const SegmentEntry& entry) {
    entries_.push_back(entry);
    --pending_;
  }
  void Lost() {
    failed_ = true;
    --pending_;
  }

  /// Nothing more will be reserved.
  void Close() { closed_ = true; }
  /// Nothing will be written any more, except for the table.
  bool IsDone() const { return closed_ && pending_ == 0; }
  /// A record could not be written, so the table could not be either.
  bool failed() const { return failed_; }

  std::uint32_t number() const { return number_; }
  const std::string& name() const { return name_; }
  const FileDescriptor& file() const { return *file_; }
  /// Where the table will begin.
  std::uint64_t end() const { return end_; }
  std::span<const SegmentEntry> entries() const { return entries_; }

 private:
  const std::uint32_t number_;
  const std::string name_;
  const std::shared_ptr<const FileDescriptor> file_;
  const std::uint64_t max_bytes_;
  std::uint64_t end_ = sizeof(SegmentHeader);
  std::vector<SegmentEntry> entries_;
  std::size_t pending_ = 0;  // places given out, not known to be written or lost
  bool closed_ = false;
  bool failed_ = false;
};

}  // namespace millrace
