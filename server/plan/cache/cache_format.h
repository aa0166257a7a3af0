// The bytes of segments, the files in which a disk cache keeps examples. docs/formats/cache.md
// describes them.
//
// Values and functions; thread-safe.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "common/base/ids.h"
#include "common/base/result.h"

namespace millrace {

static_assert(std::endian::native == std::endian::little, "segments are little endian");

inline constexpr std::uint32_t kCacheVersion = 1;
/// Records begin at multiples of this, and so do their values.
inline constexpr std::uint64_t kCacheUnit = 16;
/// A place in a segment, in units, has 24 bits, and the length of a record has 20.
inline constexpr std::uint64_t kMaxSegmentBytes = std::uint64_t{256} << 20;
inline constexpr std::uint64_t kMaxRecordBytes = (std::uint64_t{1} << 24) - kCacheUnit;

struct SegmentHeader {
  char magic[8];
  std::uint32_t version;
  std::uint32_t reserved[11];  // zero
  std::uint64_t checksum;      // XXH3-64 of the bytes before
};
static_assert(sizeof(SegmentHeader) == 64);

/// Before each value. Zeros follow the value up to the next multiple of kCacheUnit.
struct RecordHeader {
  std::uint64_t digest_high;  // XXH3-128 of the rest of the header and the value
  std::uint64_t digest_low;
  std::uint64_t key_high;
  std::uint64_t key_low;
  std::uint64_t size;  // of the value, in bytes
  char mark[8];
};
static_assert(sizeof(RecordHeader) == 48);

/// An entry of the table at the end of a complete segment.
struct SegmentEntry {
  std::uint64_t key_high;
  std::uint64_t key_low;
  std::uint32_t place;   // where the record begins, in units
  std::uint32_t length;  // of the record with its padding, in units
  friend bool operator==(const SegmentEntry&, const SegmentEntry&) = default;
};
static_assert(sizeof(SegmentEntry) == 24);

/// The last bytes of a complete segment, directly behind the table.
struct SegmentTrailer {
  std::uint64_t entries;
  std::uint64_t checksum;  // XXH3-64 of the table, with `entries` as the seed
  std::uint64_t reserved;  // zero
  char magic[8];
};
static_assert(sizeof(SegmentTrailer) == 32);

SegmentHeader MakeSegmentHeader();
/// DataLoss if it is not the header of a segment; FailedPrecondition if it is of another version.
Status CheckSegmentHeader(const SegmentHeader& header);

/// The bytes of a record with header and padding. REQUIRES: `value_bytes` <= kMaxRecordBytes.
constexpr std::uint64_t RecordBytes(std::uint64_t value_bytes) {
  return (sizeof(RecordHeader) + value_bytes + kCacheUnit - 1) / kCacheUnit * kCacheUnit;
}
/// Writes a record. REQUIRES: `record` has RecordBytes(value.size()) bytes.
void WriteRecord(const Digest128& key, std::span<const std::byte> value,
                 std::span<std::byte> record);
/// The size of the value in `record`, directly behind the header. DataLoss unless the record is
/// complete, has this key, and has the digest that it says.
Result<std::size_t> CheckRecord(const Digest128& key, std::span<const std::byte> record);
/// The entry of the record with this header, which begins at `offset`. nullopt unless the record
/// could begin there and end before `end`.
std::optional<SegmentEntry> ReadRecordHeader(const RecordHeader& header, std::uint64_t offset,
                                             std::uint64_t end);

/// Table and trailer.
std::string MakeSegmentEnd(std::span<const SegmentEntry> entries);
constexpr std::uint64_t SegmentEndBytes(std::uint64_t entries) {
  return entries * sizeof(SegmentEntry) + sizeof(SegmentTrailer);
}
/// Where the table begins in a segment of `segment_bytes` bytes. DataLoss if there is no table.
Result<std::uint64_t> FindTable(const SegmentTrailer& trailer, std::uint64_t segment_bytes);
/// Whether the table is the one that was written.
bool IsTable(const SegmentTrailer& trailer, std::span<const std::byte> table);
/// Whether a record can be there, in a segment whose table or end is at `end`.
bool LiesInSegment(const SegmentEntry& entry, std::uint64_t end);

/// "millrace-<owner, 16 hex digits>-<number, 8 hex digits>.examples"
std::string SegmentName(std::uint64_t owner, std::uint32_t number);
bool IsSegmentName(std::string_view name);
/// A segment has this ending while its header is written.
inline constexpr std::string_view kNewSegmentEnding = ".new";

}  // namespace millrace
