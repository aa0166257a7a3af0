// Framing of TFRecord files. A record lies in its file, its checksums are right, and a file that is
// written from the records that were read is what was read.
#include <algorithm>
#include <cstring>
#include <span>
#include <string>

#include "server/kinds/records/format/crc32c.h"
#include "server/kinds/records/format/record_framing.h"
#include "tests/fuzz/fuzz.h"

namespace millrace::fuzz {
namespace {

template <class T>
std::string RawText(T value) {
  std::string text(sizeof(T), '\0');
  std::memcpy(text.data(), &value, sizeof(T));
  return text;
}

std::string Framed(std::string_view data) {
  const std::string length = RawText(std::uint64_t{data.size()});
  return length + RawText(MaskedCrc32c(std::as_bytes(std::span(length)))) + std::string(data) +
         RawText(MaskedCrc32c(std::as_bytes(std::span(data))));
}

}  // namespace
}  // namespace millrace::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace millrace;
  const auto file = std::as_bytes(std::span(data, size));
  fuzz::Require(Crc32c(file) == Crc32cByTable(file), "both ways give one checksum");
  std::uint64_t offset = 0;
  while (offset < size) {
    const FramedRecord record = ReadRecord(file, offset);
    const FramedRecord quick = ReadRecord(file, offset, /*check_data=*/false);
    if (record.fault != RecordFault::kSound) {
      fuzz::Require(!Describe(record.fault).empty(), "a fault has a text");
      fuzz::Require(record.next == offset && record.data.empty(), "a bad record has no data");
      fuzz::Require(
          (quick.fault == RecordFault::kSound) == (record.fault == RecordFault::kDataChecksum),
          "only the data of a record that can be skipped is bad");
      break;
    }
    fuzz::Require(quick.fault == RecordFault::kSound && quick.next == record.next,
                  "what the checksum of the data has no part in is the same");
    fuzz::Require(record.next > offset && record.next <= size, "a record lies in its file");
    const std::string again =
        fuzz::Framed({reinterpret_cast<const char*>(record.data.data()), record.data.size()});
    fuzz::Require(again.size() == record.next - offset &&
                      std::memcmp(again.data(), data + offset, again.size()) == 0,
                  "a record that is written again has the same bytes");
    offset = record.next;
  }
  return 0;
}

std::vector<std::string> millrace::fuzz::Seeds() {
  const std::string long_one(300, 'x');
  return {
      Framed(""),
      Framed("abc") + Framed(long_one) + Framed(""),
      Framed(long_one).substr(0, 100),
      Framed("abc") + std::string("\x1F\x8B\x08", 3),
      std::string("\x1F\x8B\x08", 3) + std::string(20, '\0'),
      RawText(~std::uint64_t{0}) +
          RawText(MaskedCrc32c(std::as_bytes(std::span("\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF", 8))))};
}
