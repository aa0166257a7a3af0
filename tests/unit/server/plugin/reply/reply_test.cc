#include <catch2/catch.hpp>

#include <cstring>
#include <string>
#include <vector>

#include "server/plugin/reply/chance_key.h"
#include "server/plugin/reply/plugin_failure.h"
#include "server/plugin/reply/reply_layout.h"
#include "server/plugin/reply/reply_message.h"
#include "server/plugin/reply/reply_table.h"

namespace millrace {
namespace {

using Catch::Matchers::Contains;

TensorType Type(std::string_view text) { return *ParseTensorType(text); }

/// Three rows of a ragged tensor of two float32 an element, and of a dense one.
class Table {
 public:
  Table() : layout(*LayOutReply({Type("float32[*, 2]"), Type("int64")}, 3)) {
    bytes.resize(layout.TableBytes());
    for (std::uint64_t row = 0; row < 3; ++row) {
      SetOutcome(row, 1);
      SetPlace(row, layout.heap + 16 * row, row);
    }
    memory_bytes = layout.heap + 64;
  }
  void SetOutcome(std::uint64_t row, int outcome) {
    bytes[layout.outcomes - kReplyHeadBytes + row] = static_cast<std::byte>(outcome);
  }
  void SetPlace(std::uint64_t row, std::uint64_t offset, std::uint64_t extent) {
    std::byte* const at = bytes.data() + layout.places[0] - kReplyHeadBytes + 16 * row;
    std::memcpy(at, &offset, 8);
    std::memcpy(at + 8, &extent, 8);
  }
  std::string Error(std::uint64_t finished = 3) const {
    const Status status = ReadReplyTable(layout, bytes, finished, memory_bytes).status();
    CHECK((status.ok() || status.code() == StatusCode::kDataLoss));
    return status.message();
  }

  ReplyLayout layout;
  std::vector<std::byte> bytes;
  std::uint64_t memory_bytes = 0;
};

TEST_CASE("the parts of a reply lie one after another", "[plugin_reply]") {
  const auto layout =
      LayOutReply({Type("float32[3]"), Type("uint8[*]"), Type("int64"), Type("int8[*]")}, 100);
  REQUIRE(layout.ok());
  CHECK(layout->outcomes == 64);
  CHECK(layout->places == std::vector<std::uint64_t>{3392, 192, 4608, 1792});
  CHECK(layout->columns == 3392);
  CHECK(layout->heap == 5440);
}

TEST_CASE("a reply that is too large is refused", "[plugin_reply]") {
  CHECK_FALSE(LayOutReply({Type("uint8")}, kMaxReplyRows + 1).ok());
  CHECK_FALSE(LayOutReply({Type("float64[134217728]")}, kMaxReplyRows).ok());
  CHECK(LayOutReply({Type("uint8")}, kMaxReplyRows).ok());
}

TEST_CASE("a good table gives the place of every value", "[plugin_reply]") {
  Table table;
  table.SetOutcome(1, 2);
  table.SetPlace(1, 1, 1u << 30);  // of a row that was dropped, nothing is read
  const auto read = ReadReplyTable(table.layout, table.bytes, 3, table.memory_bytes);
  REQUIRE(read.ok());
  CHECK(read->outcomes ==
        std::vector<RowOutcome>{RowOutcome::kDone, RowOutcome::kDropped, RowOutcome::kDone});
  CHECK(read->Place(0, 2).offset == table.layout.heap + 32);
  CHECK(read->Place(0, 2).bytes == 16);
  CHECK(read->Place(0, 2).extent == 2);
  CHECK(read->Place(1, 2).offset == table.layout.places[1] + 16);
  CHECK(read->Place(1, 2).bytes == 8);
}

TEST_CASE("only finished rows are read", "[plugin_reply]") {
  Table table;
  table.SetOutcome(2, 77);
  table.SetPlace(2, 1, 1);
  const auto read = ReadReplyTable(table.layout, table.bytes, 2, table.memory_bytes);
  REQUIRE(read.ok());
  CHECK(read->outcomes.size() == 2);
}

TEST_CASE("every wrong number of a table is found", "[plugin_reply]") {
  Table table;
  CHECK(table.Error().empty());
  const std::uint64_t heap = table.layout.heap;
  SECTION("rows") { CHECK_THAT(table.Error(4), Contains("4 rows of 3 are complete")); }
  SECTION("an outcome") {
    table.SetOutcome(1, GENERATE(0, 4, 255));
    CHECK_THAT(table.Error(), Contains("row 1 has the outcome"));
  }
  SECTION("alignment") {
    table.SetPlace(1, heap + 2, 1);
    CHECK_THAT(table.Error(), Contains("row 1, tensor 0: the place is not a multiple of the size"));
  }
  SECTION("before the heap") {
    table.SetPlace(1, GENERATE_COPY(std::uint64_t{0}, heap - 8), 0);
    CHECK_THAT(table.Error(), Contains("the place is not in the heap"));
  }
  SECTION("behind the memory") {
    table.SetPlace(1, GENERATE_COPY(heap + 72, ~std::uint64_t{7}), 0);
    CHECK_THAT(table.Error(), Contains("the place is not in the heap"));
  }
  SECTION("values that end behind the memory") {
    table.SetPlace(1, heap, GENERATE(std::uint64_t{9}, std::uint64_t{1} << 61, ~std::uint64_t{0}));
    CHECK_THAT(table.Error(), Contains("the values end behind the memory"));
  }
  SECTION("values over each other") {
    table.SetPlace(1, heap, 8);
    table.SetPlace(2, heap, 8);
    CHECK_THAT(table.Error(), Contains("there are more values than the heap has bytes"));
  }
  SECTION("a memory without room for the columns") {
    table.memory_bytes = heap - 1;
    CHECK_THAT(table.Error(), Contains("expected at least"));
  }
}

TEST_CASE("values may end where the memory does", "[plugin_reply]") {
  Table table;
  table.SetPlace(0, table.layout.heap, 0);
  table.SetPlace(1, table.layout.heap + 64, 0);
  table.SetPlace(2, table.layout.heap, 8);
  CHECK(table.Error().empty());
}

TEST_CASE("keys are the hash of all that makes a draw another one", "[plugin_reply]") {
  // xxhash.xxh3_128(b"3/1/7/ab").intdigest() of Python's xxhash, the low word first; below of
  // b"3/1/7/ab/a.view/" and b"3/1/7/ab/a.view/2".
  const ChanceKey source{0x66e1d211c977988c, 0x4312426cc85acb5e};
  CHECK(MakeChanceKey({3, "ab", ""}, 1, 7, std::nullopt) == source);
  CHECK(MakeChanceKey({3, "ab", ""}, 1, 7, 2) == source);  // its chunks are of one build
  CHECK(MakeChanceKey({3, "ab", "a.view"}, 1, 7, std::nullopt) ==
        ChanceKey{0x05ff5ee3b187316f, 0x5f6b42c3c66104fe});
  CHECK(MakeChanceKey({3, "ab", "a.view"}, 1, 7, 2) ==
        ChanceKey{0x9aa588f49b0e88fc, 0xdd8eb33614c52589});
  // b"4312426cc85acb5e66e1d211c977988c/numpy"
  CHECK(MakeSeed(source, "numpy") == ChanceKey{0x74a2c63df1a8585c, 0x27df4193b8d71181});
}

TEST_CASE("messages are read", "[plugin_reply]") {
  const auto imported = ReadImported(R"({"imported": {"threads": 2, "python": "3.11.2"}})");
  REQUIRE(imported.ok());
  CHECK(imported->threads == 2);
  CHECK(imported->python == "3.11.2");
  CHECK(*ReadForked(R"({"pid": 17})") == 17);
  CHECK(*ReadReaped(R"({"status": 9})") == 9);
  const auto built = ReadBuilt(
      R"({"built": {"failures": [{"row": 1, "type": "E", "message": "m", "traceback": "t"},)"
      R"( {"row": null, "message": "n"}]}})",
      2);
  REQUIRE(built.ok());
  REQUIRE(built->failures.size() == 2);
  CHECK(built->failures[0].row == 1);
  CHECK(built->failures[0].failure.kind == FailureKind::kException);
  CHECK(built->failures[0].failure.traceback == "t");
  CHECK_FALSE(built->failures[1].row.has_value());
  CHECK(built->failures[1].failure.kind == FailureKind::kValue);
}

TEST_CASE("the plugin's own error is told in its words", "[plugin_reply]") {
  const Status status =
      ReadForked(R"({"error": {"type": "E", "message": "m", "traceback": "t"}})").status();
  CHECK(status.code() == StatusCode::kFailedPrecondition);
  CHECK(status.message() == "E: m\nt");
}

TEST_CASE("what is no message is refused", "[plugin_reply]") {
  const std::string text = GENERATE(
      "", "x", "[]", "{}", "17", R"({"pid": -1})", R"({"pid": "1"})", R"({"pid": 2147483648})",
      R"({"built": 1})", R"({"built": {"failures": [1]}})", R"({"built": {"failures": [{}]}})",
      R"({"built": {"failures": [{"row": 2}]}})", R"({"built": {"failures": [{"row": -1}]}})",
      R"({"opened": {"spec": [["a", null]], "length": 1}})",
      R"({"opened": {"spec": [["a"]], "length": 1}})", R"({"opened": {"spec": [], "length": -1}})",
      R"({"facts": {"columns": [["a", "int32"]]}})", R"({"versions": [1]})",
      R"({"column": {"dtype": "int64"}})", "{\"pid\": 1", "{\"error\": 1}");
  CHECK(ReadImported(text).status().code() == StatusCode::kInternal);
  CHECK(ReadOpened(text).status().code() == StatusCode::kInternal);
  CHECK(ReadFacts(text).status().code() == StatusCode::kInternal);
  CHECK(ReadColumn(text).status().code() == StatusCode::kInternal);
  CHECK(ReadVersions(text).status().code() == StatusCode::kInternal);
  CHECK(ReadBuilt(text, 2).status().code() == StatusCode::kInternal);
  CHECK(ReadForked(text).status().code() == StatusCode::kInternal);
}

TEST_CASE("a message of brackets alone is refused", "[plugin_reply]") {
  CHECK_FALSE(ReadForked(std::string(1'000'000, '[')).ok());
  CHECK_FALSE(
      ReadForked("{\"pid\": " + std::string(100'000, '[') + std::string(100'000, ']') + "}").ok());
}

TEST_CASE("text that is not UTF-8 becomes so", "[plugin_reply]") {
  CHECK(PlainText("a\tb\nc \u00e9 \u20ac \U0001f600") == "a\tb\nc \u00e9 \u20ac \U0001f600");
  CHECK(PlainText("a\x1b[1m\x7f") == "a\ufffd[1m\ufffd");
  CHECK(PlainText(std::string_view("a\0b", 3)) ==
        "a\ufffd"
        "b");
  CHECK(PlainText("\xc3") == "\ufffd");
  CHECK(PlainText("\xc0\xaf") == "\ufffd\ufffd");            // overlong
  CHECK(PlainText("\xed\xa0\x80") == "\ufffd\ufffd\ufffd");  // a surrogate
  CHECK(PlainText("\xf4\x90\x80\x80") == "\ufffd\ufffd\ufffd\ufffd");
}

TEST_CASE("a failure is described in a line or whole", "[plugin_reply]") {
  PluginFailure failure{FailureKind::kException, "ValueError", "bad", "Traceback …", "words", 2};
  CHECK(FailureLine(failure) == "ValueError: bad");
  CHECK(DescribeFailure(failure, "m:C", 17) ==
        "m:C, example 17: ValueError: bad\nTraceback …\nits last output:\nwords");
  failure.message = failure.traceback = failure.last_output = "";
  CHECK(DescribeFailure(failure, "m:C", 17) == "m:C, example 17: ValueError");
}

}  // namespace
}  // namespace millrace
