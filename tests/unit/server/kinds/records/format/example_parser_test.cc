#include "server/kinds/records/format/example_parser.h"

#include <rapidcheck.h>
#include <rapidcheck/catch.h>
#include <catch2/catch.hpp>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>

#include "server/kinds/records/format/wire_reader.h"
#include "tests/support/example_oracle.h"
#include "tests/support/skip.h"
#include "tests/unit/server/kinds/records/format/record_file.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;
using test::BytesOf;
using test::DifferenceFromProtobuf;

std::string Varint(std::uint64_t value) {
  std::string text;
  for (; value >= 0x80; value >>= 7) text += static_cast<char>(value | 0x80);
  return text + static_cast<char>(value);
}
std::string Field(std::uint32_t field, const std::string& value) {
  return Varint(WireTag(field, WireType::kBytes)) + Varint(value.size()) + value;
}
std::string Groups(int depth) {
  std::string text;
  for (int i = 0; i < depth; ++i) text += Varint(WireTag(9, WireType::kGroupBegin));
  for (int i = 0; i < depth; ++i) text += Varint(WireTag(9, WireType::kGroupEnd));
  return text;
}

/// Examples with `what` inside each of the five messages.
std::vector<std::string> InEachMessage(const std::string& what) {
  const auto entry = [](const std::string& feature) {
    return Field(1, Field(1, Field(1, "s") + Field(2, feature)));
  };
  return {what + entry(Field(3, Field(1, "\x05"))),
          Field(1, what) + entry(Field(3, Field(1, "\x05"))),
          Field(1, Field(1, Field(1, "s") + what + Field(2, ""))),
          entry(what + Field(3, Field(1, "\x05"))),
          entry(Field(1, what)),
          entry(Field(2, what)),
          entry(Field(3, what))};
}

TEST_CASE("features of every kind are read", "[records][example]") {
  const test::PlainExample example = {
      {"b", {.kind = FeatureKind::kBytes, .bytes = {"x", "", "yz"}, .floats = {}, .ints = {}}},
      {"f", {.kind = FeatureKind::kFloat, .bytes = {}, .floats = {1, 0x7FC00001}, .ints = {}}},
      {"i", {.kind = FeatureKind::kInt64, .bytes = {}, .floats = {}, .ints = {1, -1, 300}}},
      {"none", {}}};
  const std::string bytes = test::WriteByProtobuf(example);
  ExampleParser parser({"i", "f", "b", "none", "missing"});
  REQUIRE(parser.Parse(BytesOf(bytes)));
  CHECK(parser.feature(0).kind() == FeatureKind::kInt64);
  CHECK(std::ranges::equal(parser.feature(0).ints(), std::vector<std::int64_t>{1, -1, 300}));
  CHECK(parser.feature(1).kind() == FeatureKind::kFloat);
  CHECK(parser.feature(1).float_bytes().size() == 8);
  CHECK(parser.feature(2).kind() == FeatureKind::kBytes);
  CHECK(parser.feature(2).bytes().size() == 3);
  CHECK(parser.feature(2).count() == 3);
  CHECK(parser.feature(3).kind() == FeatureKind::kAbsent);
  CHECK(parser.feature(4).kind() == FeatureKind::kAbsent);
}

TEST_CASE("nothing of one Example is left in the next", "[records][example]") {
  ExampleParser parser({"a"});
  const std::string full = test::WriteByProtobuf(
      {{"a", {.kind = FeatureKind::kInt64, .bytes = {}, .floats = {}, .ints = {1, 2}}}});
  REQUIRE(parser.Parse(BytesOf(full)));
  REQUIRE(parser.Parse({}));
  CHECK(parser.feature(0).kind() == FeatureKind::kAbsent);
  CHECK(parser.feature(0).count() == 0);
  CHECK(parser.feature(0).ints().empty());
}

TEST_CASE("many wanted features are found in any order", "[records][example]") {
  test::PlainExample example;
  std::vector<std::string> names;
  for (int i = 0; i < 100; ++i) {
    names.push_back("feature " + std::to_string(i * 7919 % 100));
    example[names.back()] = {
        .kind = FeatureKind::kInt64, .bytes = {}, .floats = {}, .ints = {i, i + 1}};
  }
  ExampleParser parser(names);
  REQUIRE(parser.Parse(BytesOf(test::WriteByProtobuf(example))));
  for (int i = 0; i < 100; ++i) {
    CHECK(std::ranges::equal(parser.feature(static_cast<std::size_t>(i)).ints(),
                             std::vector<std::int64_t>{i, i + 1}));
  }
}

TEST_CASE("groups may nest as deep as protobuf lets them in each message", "[records][example]") {
  for (int depth = 94; depth < 103; ++depth) {
    for (const std::string& example : InEachMessage(Groups(depth))) {
      CAPTURE(depth);
      CHECK(DifferenceFromProtobuf(example).empty());
    }
  }
}

TEST_CASE("fields of every tag are read or skipped in each message as protobuf does",
          "[records][example]") {
  for (std::uint32_t tag = 0; tag < 48; ++tag) {
    for (const std::string value :
         {"", "\x01", "\x03yes", "\x04four", "\x08wordword", "\x80\x80"}) {
      for (const std::string& example : InEachMessage(Varint(tag) + value)) {
        CAPTURE(tag, value);
        CHECK(DifferenceFromProtobuf(example).empty());
      }
    }
  }
}

TEST_CASE("varints of any length are read as protobuf reads them", "[records][example]") {
  std::vector<std::string> varints;
  for (std::size_t bytes = 1; bytes < 13; ++bytes) {
    for (const char last : {'\x00', '\x01', '\x07', '\x08', '\x0F', '\x10', '\x7F', '\x80'}) {
      varints.push_back(std::string(bytes - 1, '\x81') + last);
      // A small number that is longer than needed: 4, or the tag of field 1 with a length.
      for (const char first : {'\x84', '\x8A'}) {
        varints.push_back(first + std::string(bytes, '\x80') + last);
      }
    }
  }
  for (const std::string& varint : varints) {
    CAPTURE(varint);
    for (const std::string& example : InEachMessage(varint + "\x04rest")) {  // as a tag
      CHECK(DifferenceFromProtobuf(example).empty());
    }
    for (const std::string& example : InEachMessage("\x4A" + varint + "rest")) {  // as a length
      CHECK(DifferenceFromProtobuf(example).empty());
    }
    for (const std::string& example : InEachMessage("\x08" + varint)) {  // as a value
      CHECK(DifferenceFromProtobuf(example).empty());
    }
    for (const std::string& example : InEachMessage(Field(1, varint))) {  // packed
      CHECK(DifferenceFromProtobuf(example).empty());
    }
  }
}

TEST_CASE("keys that are not UTF-8 are refused as protobuf refuses them", "[records][example]") {
  for (unsigned first = 0x7F; first < 0x100; ++first) {
    for (unsigned second = 0x7E; second < 0x101; ++second) {
      for (const std::string rest : {"", "\x80", "\xBF\x80"}) {
        std::string key(1, static_cast<char>(first));
        if (second < 0x100) key += static_cast<char>(second);
        key += rest;
        const std::string example = Field(1, Field(1, Field(1, key)));
        if (!DifferenceFromProtobuf(example).empty()) {
          CAPTURE(first, second, rest);
          FAIL("another reading");
        }
      }
    }
  }
}

TEST_CASE("Examples cut off anywhere are read as protobuf reads them", "[records][example]") {
  std::mt19937_64 random(5);
  for (int i = 0; i < 30; ++i) {
    const std::string example = test::RandomEncoding(random);
    for (std::size_t size = 0; size <= example.size(); ++size) {
      CHECK(DifferenceFromProtobuf(example.substr(0, size)).empty());
    }
  }
}

TEST_CASE("random Examples, encodings and changes are read as protobuf reads them",
          "[records][example]") {
  const auto agrees = [](const std::string& example) {
    const std::string difference = DifferenceFromProtobuf(example);
    if (!difference.empty()) RC_FAIL(difference);
  };
  rc::prop("canonical", [&] {
    std::mt19937_64 random(*rc::gen::arbitrary<std::uint64_t>());
    agrees(test::WriteByProtobuf(test::RandomExample(random)));
  });
  rc::prop("odd", [&] {
    std::mt19937_64 random(*rc::gen::arbitrary<std::uint64_t>());
    for (int i = 0; i < 50; ++i) agrees(test::RandomEncoding(random));
  });
  rc::prop("changed", [&] {
    std::mt19937_64 random(*rc::gen::arbitrary<std::uint64_t>());
    for (int i = 0; i < 20; ++i) {
      agrees(test::Mutated(test::RandomEncoding(random), random));
      agrees(test::Mutated(test::WriteByProtobuf(test::RandomExample(random)), random));
    }
  });
}

TEST_CASE("most random encodings are legal, and some are not", "[records][example]") {
  std::mt19937_64 random(1);
  int legal = 0;
  for (int i = 0; i < 1000; ++i) {
    legal += test::ReadByProtobuf(test::RandomEncoding(random)).has_value() ? 1 : 0;
  }
  CHECK(legal > 500);
  CHECK(legal < 1000);
}

TEST_CASE("golden odd encodings have the values that protobuf reads", "[records][example]") {
  const fs::path dir = fs::path(test::SharedDirOrSkip()) / "golden-tensors/encodings";
  if (!fs::exists(dir)) test::SkipTest("no golden records");
  google::protobuf::ListValue list;
  REQUIRE(
      google::protobuf::util::JsonStringToMessage(test::ReadFileText(dir / "expected.json"), &list)
          .ok());
  CHECK(list.values().size() == 19);
  const auto all = test::ReadAllRecords(test::ReadFileText(dir / "encodings.tfrecord"));
  REQUIRE(all.records.size() == 19);
  std::string first_d;
  for (std::size_t i = 0; i < all.records.size(); ++i) {
    const auto& fields = list.values(static_cast<int>(i)).struct_value().fields();
    CAPTURE(fields.at("name").string_value());
    CHECK(DifferenceFromProtobuf(all.records[i]).empty());
    ExampleParser parser({"d", "s"});
    REQUIRE(parser.Parse(BytesOf(all.records[i])));
    REQUIRE(parser.feature(0).bytes().size() == 1);
    const auto d = parser.feature(0).bytes()[0];
    const std::string d_text(reinterpret_cast<const char*>(d.data()), d.size());
    if (first_d.empty()) first_d = d_text;
    CHECK((d_text == first_d) == fields.at("d_is_first_records_d").bool_value());
    REQUIRE(parser.feature(1).ints().size() == 1);
    CHECK(static_cast<double>(parser.feature(1).ints()[0]) == fields.at("s").number_value());
  }
}

TEST_CASE("golden messages that are no Examples are refused", "[records][example]") {
  const fs::path dir = fs::path(test::SharedDirOrSkip()) / "golden-tensors/broken";
  if (!fs::exists(dir)) test::SkipTest("no golden records");
  ExampleParser parser({"d", "s"});
  for (const std::string name : {"cut_message", "not_an_example"}) {
    CAPTURE(name);
    const auto all = test::ReadAllRecords(test::ReadFileText(dir / (name + ".tfrecord")));
    REQUIRE(all.records.size() > 1);
    CHECK(parser.Parse(BytesOf(all.records[0])));
    CHECK_FALSE(parser.Parse(BytesOf(all.records[1])));
  }
}

}  // namespace
}  // namespace millrace
