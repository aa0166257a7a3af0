// Files of measured columns, and records of those that are being measured. Whatever is accepted has
// one text, and every value can be read.
#include <algorithm>

#include "common/base/hash.h"
#include "server/plan/columns/column_record.h"
#include "server/source/column_file.h"
#include "tests/fuzz/digested_bytes.h"
#include "tests/fuzz/fuzz.h"

namespace {

using namespace millrace;

const ColumnKey& Key() {
  static const ColumnKey key{{1, 2}, {3, 4}, "nodes"};
  return key;
}

void Decode(const std::vector<std::byte>& bytes) {
  const auto values = DecodeColumn(bytes, Key());
  if (!values.ok()) return;
  const bool counts = values->type() == MeasuredType::kCount;
  // Counts are read from either version, and written in the first.
  if (!counts || bytes[8] == std::byte{1}) {
    fuzz::Require(EncodeColumn(Key(), *values) == bytes, "a column has one file");
  }
  for (std::uint64_t id = 0; id < values->size(); ++id) {
    fuzz::Require(!counts || values->At(id) >= 0, "a count is not negative");
    fuzz::Require(values->Has(id) || values->At(id) == 0, "a value is 0 if there is none");
  }
}

void DecodeRecords(const std::vector<std::byte>& bytes) {
  std::span<const std::byte> in = bytes;
  while (true) {
    const std::span<const std::byte> before = in;
    const auto record = TakeRecord(in);
    if (!record.ok()) {
      fuzz::Require(in.size() == before.size(), "nothing is taken of what is no record");
      return;
    }
    const std::vector<std::byte> again = EncodeRecord(*record);
    fuzz::Require(again.size() == before.size() - in.size() &&
                      std::equal(again.begin(), again.end(), before.begin()),
                  "a record has one text");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::vector<std::byte> bytes = millrace::fuzz::BytesOf(data, size);
  Decode(bytes);
  std::vector<std::byte> record = bytes;
  const std::uint64_t checksum = Xxh3_64(record);
  for (int byte = 0; byte < 8; ++byte) record.push_back(std::byte(checksum >> (8 * byte) & 0xff));
  DecodeRecords(bytes);
  DecodeRecords(record);
  Decode(millrace::fuzz::WithDigest(bytes));
  return 0;
}

std::vector<std::string> millrace::fuzz::Seeds() {
  std::vector<std::string> seeds;
  for (const MeasuredType type : {MeasuredType::kInt64, MeasuredType::kFloat32}) {
    WideValues wide = WideValues::None(type, 10);
    for (const std::uint64_t id : {0, 7, 9}) wide.Set(id, 0x3f000000 + id);
    const MeasuredValues values(wide);
    const std::vector<std::byte> bytes = EncodeColumn(Key(), values);
    const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    seeds.push_back(text);
    seeds.push_back(text.substr(0, text.size() - 16));
    const std::vector<std::byte> record = EncodeRecord({256, values});
    seeds.emplace_back(reinterpret_cast<const char*>(record.data()), record.size());
  }
  for (const std::uint64_t largest : {3ull, 300ull, 70'000ull, 1ull << 40}) {
    const std::vector<std::byte> bytes = EncodeColumn(
        Key(), MeasuredValues(std::vector<std::uint64_t>{1, MeasuredValues::kNone, largest}));
    const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    seeds.push_back(text);
    seeds.push_back(text.substr(0, text.size() - 16));
    const std::vector<std::byte> record =
        EncodeRecord({512, MeasuredValues(std::vector<std::uint64_t>{1, largest})});
    const std::string of_record(reinterpret_cast<const char*>(record.data()), record.size());
    seeds.push_back(of_record + of_record);
    seeds.push_back(of_record.substr(0, of_record.size() - 8));
  }
  return seeds;
}
