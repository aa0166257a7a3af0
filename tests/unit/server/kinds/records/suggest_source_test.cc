#include "server/kinds/records/suggest_source.h"

#include <catch2/catch.hpp>

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "server/kinds/records/format/example_parser.h"
#include "server/kinds/records/records_kind.h"
#include "tests/unit/server/kinds/records/records_folder.h"

namespace millrace {
namespace {

using Catch::Contains;
using test::TempDir;

std::string SequenceExample() {
  // context (field 1): none; feature_lists (field 2): one empty entry of its map.
  return {"\x0a\x00\x12\x02\x0a\x00", 6};
}

TEST_CASE("a source is suggested that fits the records looked at", "[records_kind]") {
  const TempDir dir;
  std::vector<std::string> data;
  for (std::int64_t i = 0; i < 20; ++i) {
    data.push_back(test::ExampleOf([i](ExampleBuilder& builder) {
      builder.AddBytes("image/raw", std::string(4, static_cast<char>(0x80 + i)));
      builder.AddBytes("name", "n" + std::string(static_cast<std::size_t>(i), 'x'));
      builder.AddInts("label", {&i, 1});
      const std::array<std::int64_t, 3> box = {i, i, i};
      builder.AddInts("box", std::span(box).first(3));
      builder.AddInts("many", std::span(box).first(static_cast<std::size_t>(i % 4)));
      if (i > 0) builder.AddInts("quality", {&i, 1});
      if (i > 1) builder.AddBytes("tags", std::vector<std::string_view>(i == 2 ? 0 : 2, "tag"));
    }));
  }
  test::WriteRecords(dir / "a.tfrecord", data);
  const std::string text = SuggestSource(*test::MustOpenRecords(dir.path()));
  CHECK_THAT(text, Contains("values a record, in 20 of 20\n") &&
                       Contains("  many                         0 to 3\n") &&
                       Contains("  name                         1, 1 to 20 bytes\n"));
  const std::size_t line = text.find("source: ");
  REQUIRE(line != std::string::npos);
  CHECK(text.substr(line) ==
        R"(source: {records: {box: "int64[3]", raw: {feature: "image/raw", type: "bytes[4]"}, )"
        R"(label: int64, many: "int64[*]", name: str, )"
        R"(quality: {feature: "quality", type: int64, default: 0}, tags: "str[*]"}})"
        "\n");
}

TEST_CASE("a SequenceExample is refused by name", "[records_kind]") {
  const std::string sequence = SequenceExample();
  const std::string plain = test::NumberExample(3);
  ExampleParser parser({"s"});
  CHECK(parser.Parse(std::as_bytes(std::span(sequence))));
  CHECK(parser.is_sequence());
  CHECK(parser.Parse(std::as_bytes(std::span(plain))));
  CHECK_FALSE(parser.is_sequence());
  const TempDir dir;
  test::WriteRecords(dir / "a.tfrecord", {SequenceExample(), SequenceExample()});
  CHECK_THAT(*MakeRecordsKind()->Inspect(dir.path(), {}),
             Contains("2 of 2 records looked at are tf.train.SequenceExample") &&
                 Contains("no Example       2 records"));
}

}  // namespace
}  // namespace millrace
