// Files of measured columns. Whatever is accepted has one text, and every value can be read.
#include "common/base/hash.h"
#include "server/pipeline/columns/column_file.h"
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
  fuzz::Require(EncodeColumn(Key(), *values) == bytes, "a column has one file");
  for (std::uint64_t id = 0; id < values->size(); ++id) {
    fuzz::Require(values->At(id) >= 0 && (values->Has(id) || values->At(id) == 0),
                  "a value is not negative, and 0 if there is none");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto* const first = reinterpret_cast<const std::byte*>(data);
  std::vector<std::byte> bytes(first, first + size);
  Decode(bytes);
  // With the right digest, what lies before it is looked at too.
  for (const char byte : Xxh3(std::span<const std::byte>(bytes)).ToBytes()) {
    bytes.push_back(static_cast<std::byte>(byte));
  }
  Decode(bytes);
  return 0;
}

std::vector<std::string> millrace::fuzz::Seeds() {
  std::vector<std::string> seeds;
  for (const std::uint64_t largest : {3ull, 300ull, 70'000ull, 1ull << 40}) {
    const std::vector<std::byte> bytes = EncodeColumn(
        Key(), MeasuredValues(std::vector<std::uint64_t>{1, MeasuredValues::kNone, largest}));
    const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    seeds.push_back(text);
    seeds.push_back(text.substr(0, text.size() - 16));
  }
  return seeds;
}
