// TFRecord files in memory, for tests.
#pragma once

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "server/kinds/records/format/crc32c.h"
#include "server/kinds/records/format/record_framing.h"

namespace millrace::test {

inline std::span<const std::byte> BytesOf(std::string_view text) {
  return std::as_bytes(std::span(text));
}

template <class T>
std::string RawText(T value) {
  std::string text(sizeof(T), '\0');
  std::memcpy(text.data(), &value, sizeof(T));
  return text;
}

/// The header of a record with so many bytes.
inline std::string RecordHeader(std::uint64_t length) {
  const std::string text = RawText(length);
  return text + RawText(MaskedCrc32c(BytesOf(text)));
}
inline std::string Record(std::string_view data) {
  return RecordHeader(data.size()) + std::string(data) + RawText(MaskedCrc32c(BytesOf(data)));
}

inline std::string ReadFileText(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

/// The records of a file up to its first fault.
struct ReadRecords {
  std::vector<std::string> records;
  RecordFault fault = RecordFault::kSound;
  std::uint64_t offset = 0;  // of the fault, or the size of the file
};
inline ReadRecords ReadAllRecords(std::string_view file) {
  ReadRecords all;
  while (all.offset < file.size()) {
    const FramedRecord record = ReadRecord(BytesOf(file), all.offset);
    all.fault = record.fault;
    if (record.fault != RecordFault::kSound) break;
    all.records.emplace_back(reinterpret_cast<const char*>(record.data.data()), record.data.size());
    all.offset = record.next;
  }
  return all;
}

}  // namespace millrace::test
