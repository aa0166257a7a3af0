#include "server/kinds/records/format/record_framing.h"

#include <bit>
#include <cstring>

#include "server/kinds/records/format/crc32c.h"

namespace millrace {
namespace {

static_assert(std::endian::native == std::endian::little,
              "lengths and checksums are little endian");

constexpr std::size_t kLengthBytes = 8;

std::uint32_t LoadChecksum(const std::byte* at) {
  std::uint32_t checksum;
  std::memcpy(&checksum, at, sizeof(checksum));
  return checksum;
}

/// Whether the file begins as gzip does. A length may begin so too, but then its checksum is right.
bool IsGzip(std::span<const std::byte> file) {
  return file.size() >= 2 && file[0] == std::byte{0x1F} && file[1] == std::byte{0x8B};
}

}  // namespace

std::string_view Describe(RecordFault fault) {
  switch (fault) {
    case RecordFault::kSound:
      return "";
    case RecordFault::kHeaderCutOff:
      return "header cut off";
    case RecordFault::kLengthChecksum:
      return "checksum of the length";
    case RecordFault::kCutOff:
      return "record cut off";
    case RecordFault::kDataChecksum:
      return "checksum of the data";
    case RecordFault::kGzip:
      return "compressed (gzip)";
  }
  return "";
}

FramedRecord ReadRecord(std::span<const std::byte> file, std::uint64_t offset, bool check_data) {
  const auto fault = [offset](RecordFault what) {
    return FramedRecord{.fault = what, .data = {}, .next = offset};
  };
  const std::span<const std::byte> rest = file.subspan(offset);
  if (rest.size() < kRecordHeaderBytes) return fault(RecordFault::kHeaderCutOff);
  std::uint64_t length;
  std::memcpy(&length, rest.data(), sizeof(length));
  if (MaskCrc32c(Crc32cOfWord(length)) != LoadChecksum(rest.data() + kLengthBytes)) {
    return fault(offset == 0 && IsGzip(file) ? RecordFault::kGzip : RecordFault::kLengthChecksum);
  }
  const std::size_t behind_header = rest.size() - kRecordHeaderBytes;
  if (behind_header < kRecordFooterBytes || length > behind_header - kRecordFooterBytes) {
    return fault(RecordFault::kCutOff);
  }
  const std::span<const std::byte> data = rest.subspan(kRecordHeaderBytes, length);
  if (check_data && MaskedCrc32c(data) != LoadChecksum(data.data() + data.size())) {
    return fault(RecordFault::kDataChecksum);
  }
  return {.fault = RecordFault::kSound,
          .data = data,
          .next = offset + kRecordHeaderBytes + length + kRecordFooterBytes};
}

}  // namespace millrace
