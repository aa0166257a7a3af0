#include "server/plan/cache/segment_reader.h"

#include <algorithm>
#include <cstring>
#include <optional>

namespace millrace {
namespace {

/// None if the segment has no table, or a damaged one.
Result<std::optional<SegmentRecords>> ReadTable(CacheFiles& files, const FileDescriptor& file,
                                                std::uint64_t bytes) {
  if (bytes < sizeof(SegmentHeader) + sizeof(SegmentTrailer))
    return std::optional<SegmentRecords>();
  SegmentTrailer trailer;
  MILLRACE_RETURN_IF_ERROR(
      files.Read(file, std::as_writable_bytes(std::span(&trailer, 1)), bytes - sizeof trailer));
  const Result<std::uint64_t> begin = FindTable(trailer, bytes);
  if (!begin.ok()) return std::optional<SegmentRecords>();
  SegmentRecords records;
  records.entries.resize(trailer.entries);
  records.end = bytes;
  const auto table = std::as_writable_bytes(std::span(records.entries));
  MILLRACE_RETURN_IF_ERROR(files.Read(file, table, *begin));
  if (!IsTable(trailer, table)) return std::optional<SegmentRecords>();
  std::erase_if(records.entries,
                [&](const SegmentEntry& entry) { return !LiesInSegment(entry, *begin); });
  return std::optional<SegmentRecords>(std::move(records));
}

}  // namespace

Status ReadSegmentHeader(CacheFiles& files, const FileDescriptor& file) {
  SegmentHeader header;
  MILLRACE_RETURN_IF_ERROR(files.Read(file, std::as_writable_bytes(std::span(&header, 1)), 0));
  return CheckSegmentHeader(header);
}

Result<SegmentRecords> ReadSegmentRecords(CacheFiles& files, const FileDescriptor& file,
                                          std::uint64_t bytes, std::uint64_t from) {
  MILLRACE_ASSIGN_OR_RETURN(std::optional<SegmentRecords> table, ReadTable(files, file, bytes));
  if (table.has_value()) return *std::move(table);
  // Small records are read many at a time. Of a large one, not much more than the header is read.
  constexpr std::uint64_t kWindow = std::uint64_t{64} << 10;
  std::vector<std::byte> window;
  std::uint64_t window_begin = 0;
  SegmentRecords records;
  records.end = std::max<std::uint64_t>(from, sizeof(SegmentHeader));
  while (records.end <= bytes && bytes - records.end >= sizeof(RecordHeader)) {
    if (records.end < window_begin ||
        records.end + sizeof(RecordHeader) > window_begin + window.size()) {
      window_begin = records.end;
      window.resize(std::min(kWindow, bytes - window_begin));
      MILLRACE_RETURN_IF_ERROR(files.Read(file, window, window_begin));
    }
    RecordHeader header;
    std::memcpy(&header, window.data() + (records.end - window_begin), sizeof header);
    const auto entry = ReadRecordHeader(header, records.end, bytes);
    if (!entry.has_value()) break;
    records.entries.push_back(*entry);
    records.end += entry->length * kCacheUnit;
  }
  return records;
}

}  // namespace millrace
