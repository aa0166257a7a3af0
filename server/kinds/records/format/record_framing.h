// Records of a TFRecord file: where each is, and whether its bytes are sound.
//
// A record is its length (8 bytes, little endian), the masked CRC32C of these 8 bytes (4 bytes),
// the data, and the masked CRC32C of the data (4 bytes). Records follow each other without gaps.
//
// Pure functions, which allocate nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace millrace {

inline constexpr std::size_t kRecordHeaderBytes = 12;
inline constexpr std::size_t kRecordFooterBytes = 4;

enum class RecordFault : std::uint8_t {
  kSound,
  kHeaderCutOff,    // the file ends within the header
  kLengthChecksum,  // the checksum of the length is wrong
  kCutOff,          // the file ends within the data or its checksum
  kDataChecksum,    // the checksum of the data is wrong
  kGzip,            // the file is compressed as a whole
};

/// The fault for people: "checksum of the length", "compressed (gzip)", and so on; "" without a
/// fault.
std::string_view Describe(RecordFault fault);

struct FramedRecord {
  RecordFault fault = RecordFault::kSound;
  std::span<const std::byte> data;  // empty if there is a fault
  std::uint64_t next = 0;           // offset behind the record; its own offset if it has a fault
};

/// Reads the record at `offset` of a whole file. The length is compared with the file before
/// anything is read. Without `check_data` only the header is read, and data is not compared with
/// its checksum. REQUIRES: offset < file.size().
FramedRecord ReadRecord(std::span<const std::byte> file, std::uint64_t offset,
                        bool check_data = true);

}  // namespace millrace
