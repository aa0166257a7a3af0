#include "server/plan/cache/cache_format.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "common/base/hash.h"

namespace millrace {
namespace {

constexpr char kSegmentMagic[] = {'M', 'I', 'L', 'L', 'E', 'X', 'C', '\n'};
constexpr char kTrailerMagic[] = {'M', 'I', 'L', 'L', 'E', 'X', 'T', '\n'};
constexpr char kRecordMark[] = {'M', 'I', 'L', 'L', 'E', 'X', 'R', '\n'};
constexpr std::size_t kDigestBytes = 16;

std::uint64_t HeaderSum(const SegmentHeader& header) {
  return Xxh3_64(std::as_bytes(std::span(&header, 1)).first(offsetof(SegmentHeader, checksum)));
}

bool IsMagic(const char (&found)[8], const char (&expected)[8]) {
  return std::memcmp(found, expected, sizeof expected) == 0;
}

}  // namespace

SegmentHeader MakeSegmentHeader() {
  SegmentHeader header{};
  std::memcpy(header.magic, kSegmentMagic, sizeof header.magic);
  header.version = kCacheVersion;
  header.checksum = HeaderSum(header);
  return header;
}

Status CheckSegmentHeader(const SegmentHeader& header) {
  if (!IsMagic(header.magic, kSegmentMagic)) return DataLoss("no segment of a cache of examples");
  if (header.checksum != HeaderSum(header)) return DataLoss("the header is damaged");
  if (header.version != kCacheVersion) {
    return FailedPrecondition(
        fmt::format("version {}, expected {}", header.version, kCacheVersion));
  }
  return OkStatus();
}

void WriteRecord(const Digest128& key, std::span<const std::byte> value,
                 std::span<std::byte> record) {
  RecordHeader header{};
  header.key_high = key.high;
  header.key_low = key.low;
  header.size = value.size();
  std::memcpy(header.mark, kRecordMark, sizeof header.mark);
  std::memcpy(record.data(), &header, sizeof header);
  if (!value.empty()) std::memcpy(record.data() + sizeof header, value.data(), value.size());
  const std::size_t end = sizeof header + value.size();
  std::fill(record.begin() + static_cast<std::ptrdiff_t>(end), record.end(), std::byte{0});
  const Digest128 digest = Xxh3(record.subspan(kDigestBytes, end - kDigestBytes));
  header.digest_high = digest.high;
  header.digest_low = digest.low;
  std::memcpy(record.data(), &header, sizeof header);
}

Result<std::size_t> CheckRecord(const Digest128& key, std::span<const std::byte> record) {
  RecordHeader header;
  if (record.size() < sizeof header) return DataLoss("a record is cut off");
  std::memcpy(&header, record.data(), sizeof header);
  if (!IsMagic(header.mark, kRecordMark)) return DataLoss("there is no record");
  if (header.size > record.size() - sizeof header) return DataLoss("a record is cut off");
  if (Digest128{header.key_high, header.key_low} != key) {
    return DataLoss("a record has another key");
  }
  const std::size_t covered = sizeof header + header.size - kDigestBytes;
  if (Xxh3(record.subspan(kDigestBytes, covered)) !=
      Digest128{header.digest_high, header.digest_low}) {
    return DataLoss("a record has another digest than its bytes");
  }
  return static_cast<std::size_t>(header.size);
}

std::optional<SegmentEntry> ReadRecordHeader(const RecordHeader& header, std::uint64_t offset,
                                             std::uint64_t end) {
  if (!IsMagic(header.mark, kRecordMark) || header.size > kMaxRecordBytes) return std::nullopt;
  const SegmentEntry entry = {header.key_high, header.key_low,
                              static_cast<std::uint32_t>(offset / kCacheUnit),
                              static_cast<std::uint32_t>(RecordBytes(header.size) / kCacheUnit)};
  if (!LiesInSegment(entry, end)) return std::nullopt;
  return entry;
}

std::string MakeSegmentEnd(std::span<const SegmentEntry> entries) {
  const auto table = std::as_bytes(entries);
  SegmentTrailer trailer{};
  trailer.entries = entries.size();
  trailer.checksum = Xxh3_64(table, trailer.entries);
  std::memcpy(trailer.magic, kTrailerMagic, sizeof trailer.magic);
  std::string bytes(reinterpret_cast<const char*>(table.data()), table.size());
  bytes.append(reinterpret_cast<const char*>(&trailer), sizeof trailer);
  return bytes;
}

Result<std::uint64_t> FindTable(const SegmentTrailer& trailer, std::uint64_t segment_bytes) {
  if (!IsMagic(trailer.magic, kTrailerMagic)) return DataLoss("there is no table");
  if (trailer.entries > segment_bytes / sizeof(SegmentEntry)) return DataLoss("no such table");
  const std::uint64_t end = SegmentEndBytes(trailer.entries);
  if (segment_bytes < sizeof(SegmentHeader) || end > segment_bytes - sizeof(SegmentHeader)) {
    return DataLoss("no such table");
  }
  return segment_bytes - end;
}

bool IsTable(const SegmentTrailer& trailer, std::span<const std::byte> table) {
  return table.size() == trailer.entries * sizeof(SegmentEntry) &&
         Xxh3_64(table, trailer.entries) == trailer.checksum;
}

bool LiesInSegment(const SegmentEntry& entry, std::uint64_t end) {
  const std::uint64_t begin = entry.place * kCacheUnit;
  const std::uint64_t bytes = entry.length * kCacheUnit;
  return begin >= sizeof(SegmentHeader) && bytes >= sizeof(RecordHeader) &&
         bytes <= kMaxRecordBytes && end <= kMaxSegmentBytes && begin <= end &&
         bytes <= end - begin;
}

namespace {
constexpr std::string_view kNameBegin = "millrace-";
constexpr std::string_view kNameEnd = ".examples";
}  // namespace

std::string SegmentName(std::uint64_t owner, std::uint32_t number) {
  return fmt::format("{}{:016x}-{:08x}{}", kNameBegin, owner, number, kNameEnd);
}

bool IsSegmentName(std::string_view name) {
  constexpr std::size_t kOwnerDigits = 16;
  constexpr std::size_t kNumberDigits = 8;
  if (name.size() != kNameBegin.size() + kOwnerDigits + 1 + kNumberDigits + kNameEnd.size() ||
      !name.starts_with(kNameBegin) || !name.ends_with(kNameEnd)) {
    return false;
  }
  const std::string_view digits = name.substr(kNameBegin.size(), kOwnerDigits + 1 + kNumberDigits);
  for (std::size_t i = 0; i < digits.size(); ++i) {
    const bool fits = i == kOwnerDigits
                          ? digits[i] == '-'
                          : std::string_view("0123456789abcdef").find(digits[i]) != digits.npos;
    if (!fits) return false;
  }
  return true;
}

}  // namespace millrace
