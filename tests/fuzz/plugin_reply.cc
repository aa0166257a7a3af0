// The messages of a plugin's process: the table of a reply, and others. Every place that a table
// gives has to lie in the memory.
#include <algorithm>
#include <span>
#include <vector>

#include "server/plugin/reply/reply_layout.h"
#include "server/plugin/reply/reply_message.h"
#include "server/plugin/reply/reply_table.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/input.h"

namespace millrace::fuzz {
namespace {

constexpr const char* kTypes[] = {"float32[*, 80]", "int64", "uint8[*]", "float16[3]",
                                  "float64[*, 268435456]"};
constexpr std::size_t kTypeCount = std::size(kTypes);

/// An input that CheckTable reads: a table of two rows, and the messages after it.
std::string Seed(const std::vector<std::uint8_t>& types, std::string table,
                 std::string_view message) {
  std::string seed = NumberBytes(types.size(), 1);
  for (const std::uint8_t type : types) seed += NumberBytes(type, 1);
  return seed + NumberBytes(2, 1) + NumberBytes(2, 1) + NumberBytes(4096, 8) +
         NumberBytes(table.size(), 2) + table + std::string(message);
}

void CheckTable(Input& input) {
  std::vector<TensorType> types(input.Byte() % 5);
  for (TensorType& type : types) type = *ParseTensorType(kTypes[input.Byte() % kTypeCount]);
  const std::uint64_t rows = input.Byte();
  const std::uint64_t finished = input.Byte();
  const std::uint64_t memory_bytes = input.Number(8);
  const auto layout = LayOutReply(types, rows);
  RequireOk(layout.status(), "the layout of a few rows");
  std::vector<std::byte> table(layout->TableBytes());
  const std::string_view content = input.Take(input.Number(2));
  std::copy_n(std::as_bytes(std::span(content)).begin(), std::min(content.size(), table.size()),
              table.begin());
  const auto read = ReadReplyTable(*layout, table, finished, memory_bytes);
  if (!read.ok()) {
    Require(read.status().code() == StatusCode::kDataLoss, "a bad table is DataLoss");
    return;
  }
  Require(read->outcomes.size() == finished, "all finished rows are read");
  std::uint64_t in_heap = 0;
  for (std::uint64_t row = 0; row < finished; ++row) {
    Require(read->outcomes[row] != RowOutcome::kUnknown, "a finished row has an outcome");
    if (read->outcomes[row] != RowOutcome::kDone) continue;
    for (std::size_t t = 0; t < types.size(); ++t) {
      const RowPlace place = read->Place(t, row);
      Require(place.offset <= memory_bytes && place.bytes <= memory_bytes - place.offset,
              "values lie in the memory");
      Require(place.offset >= layout->columns, "values do not lie in the table");
      if (!types[t].ragged) continue;
      Require(place.offset % DTypeSize(types[t].dtype) == 0, "ragged values are aligned");
      Require(place.extent * types[t].UnitBytes() == place.bytes, "bytes are those of the extent");
      in_heap += place.bytes;
      Require(in_heap <= memory_bytes - layout->heap, "there are no more values than memory");
    }
  }
}

}  // namespace
}  // namespace millrace::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace millrace;
  fuzz::Input input(data, size);
  fuzz::CheckTable(input);
  const std::string_view message = input.rest();
  const auto check = [](const Status& status) {
    fuzz::Require(status.ok() || status.code() == StatusCode::kInternal ||
                      status.code() == StatusCode::kFailedPrecondition,
                  "a bad message is Internal, or the plugin's own error");
  };
  check(ReadImported(message).status());
  check(ReadOpened(message).status());
  check(ReadFacts(message).status());
  check(ReadColumn(message).status());
  check(ReadVersions(message).status());
  check(ReadForked(message).status());
  check(ReadReaped(message).status());
  const auto built = ReadBuilt(message, 3);
  check(built.status());
  if (!built.ok()) return 0;
  for (const BuiltMessage::Failure& failure : built->failures) {
    fuzz::Require(!failure.row || *failure.row < 3, "a failure is of a row");
    PlainText(DescribeFailure(failure.failure, "plugin", 0));
  }
  return 0;
}

std::vector<std::string> millrace::fuzz::Seeds() {
  std::vector<std::string> seeds;
  // Two ragged tensors around a dense one: the table is outcomes and two parts of 64 bytes, and the
  // heap begins at 64 + 192 + 64.
  std::string table = "\1\1" + std::string(62, '\0');
  for (const std::uint64_t begin : {320u, 1000u}) {
    table +=
        NumberBytes(begin, 8) + NumberBytes(1, 8) + NumberBytes(begin + 320, 8) + NumberBytes(0, 8);
    table += std::string(32, '\0');
  }
  for (const char* message :
       {R"({"imported": {"threads": 1, "python": "3.11.2", "numpy": "1.24.2"}})",
        R"({"opened": {"spec": [["x", "float32[*, 80]"], ["n", "int64"]], "length": 100}})",
        R"({"facts": {"columns": [["n", "int64"], ["m", null]], "digest": "ab",
               "has_version": true, "uses_chance": false, "environment": "python 3.11\n"}})",
        R"({"column": {"place": 4096, "dtype": "float64"}})", R"({"versions": ["a", "b"]})",
        R"({"built": {"failures": [{"row": 1, "type": "E", "message": "m", "traceback": "t"},
               {"row": null, "message": "\u00e9"}]}})",
        R"({"pid": 17})", R"({"status": 9})",
        R"({"error": {"type": "E", "message": "m", "traceback": "t"}})"}) {
    seeds.push_back(Seed({0, 1, 2}, table, message));
  }
  return seeds;
}
