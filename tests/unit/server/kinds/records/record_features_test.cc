// The value of `source: {records: …}`.
#include "server/kinds/records/record_features.h"

#include <catch2/catch.hpp>

#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace millrace {
namespace {

using Catch::Contains;

std::vector<RecordFeature> ReadFeatures(const std::string& json) {
  auto features = ReadRecordFeatures(ParamTree{json});
  INFO(features.status().message());
  REQUIRE(features.ok());
  return *std::move(features);
}

std::string FeatureError(const std::string& json) {
  const auto features = ReadRecordFeatures(ParamTree{json});
  INFO(json);
  REQUIRE_FALSE(features.ok());
  CHECK(features.status().code() == StatusCode::kInvalidArgument);
  return features.status().message();
}

TEST_CASE("a feature has a type, in its short form or its long one", "[record_features]") {
  const auto features = ReadFeatures(R"({"a": "bytes[194]", "b": {"type": "int64"},
      "c": {"feature": "image/class/label", "type": "float32[*, 80]"}, "d": "str"})");
  REQUIRE(features.size() == 4);
  CHECK(features[0].tensor == "a");
  CHECK(features[0].feature == "a");
  CHECK(features[0].kind == FeatureKind::kBytes);
  CHECK(features[0].type.UnitElements() == 194);
  CHECK_FALSE(features[0].fallback.has_value());
  CHECK(features[1].kind == FeatureKind::kInt64);
  CHECK(features[2].feature == "image/class/label");
  CHECK(features[2].kind == FeatureKind::kFloat);
  CHECK(features[2].type.ragged);
  // An absent ragged one is empty.
  CHECK(features[2].fallback == std::vector<std::byte>());
  CHECK(features[3].kind == FeatureKind::kBytes);
  CHECK(features[3].type.ragged);
}

TEST_CASE("a default has the type of its feature", "[record_features]") {
  const auto fallback = [](const std::string& type, const std::string& value) {
    const auto features =
        ReadFeatures(R"({"a": {"type": ")" + type + R"(", "default": )" + value + "}}");
    return *features[0].fallback;
  };
  const auto bytes_of = [](const auto& values) {
    const auto bytes = std::as_bytes(std::span(values));
    return std::vector<std::byte>(bytes.begin(), bytes.end());
  };
  using Ints = std::vector<std::int64_t>;
  CHECK(fallback("int64", "-7") == bytes_of(Ints{-7}));
  CHECK(fallback("int64", "9223372036854775807") == bytes_of(Ints{INT64_MAX}));
  CHECK(fallback("int64[2]", "[1, 2]") == bytes_of(Ints{1, 2}));
  CHECK(fallback("int64[*]", "5") == bytes_of(Ints{5}));
  CHECK(fallback("float32", "1") == bytes_of(std::vector<float>{1}));
  CHECK(fallback("float32", "-0.0") == bytes_of(std::vector<float>{-0.0F}));
  CHECK(fallback("bytes[2]", "\"ab\"") == bytes_of(std::string("ab")));
  CHECK(fallback("str", "\"\"").empty());
}

TEST_CASE("str[*] is a list of texts, which is empty if the feature is absent",
          "[record_features]") {
  const auto features = ReadFeatures(R"({"a": "str[*]", "b": {"type": "str [ * ]"}, "c": "str"})");
  for (const std::size_t texts : {0, 1}) {
    CHECK(features[texts].texts);
    CHECK(features[texts].kind == FeatureKind::kBytes);
    CHECK(features[texts].type.ragged);
    CHECK(features[texts].fallback == std::vector<std::byte>());
    CHECK(features[texts].fallback_lengths.empty());
    CHECK(features[texts].TypeText() == "str[*]");
  }
  CHECK_FALSE(features[2].texts);
}

TEST_CASE("a default of a list of texts is a list of texts, or one", "[record_features]") {
  const auto fallback = [](const std::string& value) {
    const auto features = ReadFeatures(R"({"a": {"type": "str[*]", "default": )" + value + "}}");
    const std::vector<std::byte>& bytes = *features[0].fallback;
    return std::pair(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()),
                     features[0].fallback_lengths);
  };
  using Lengths = std::vector<std::uint32_t>;
  CHECK(fallback(R"(["ab", "", "c"])") == std::pair(std::string("abc"), Lengths{2, 0, 1}));
  CHECK(fallback(R"("ab")") == std::pair(std::string("ab"), Lengths{2}));
  CHECK(fallback("[]") == std::pair(std::string(), Lengths{}));
  CHECK(FeatureError(R"({"a": {"type": "str[*]", "default": ["a", 1]}})") ==
        R"(.a.default: the default ["a",1] does not fit the type str[*])");
  CHECK_THAT(FeatureError(R"({"a": {"type": "str", "default": ["a"]}})"), Contains("does not fit"));
}

TEST_CASE("a fixed number of texts is refused with what there is", "[record_features]") {
  CHECK(FeatureError(R"({"a": "str[2]"})") ==
        ".a: the type \"str[2]\": expected str, which is one text, or \"str[*]\", any number of "
        "texts; a fixed number of texts is no type: read them as \"str[*]\"");
  CHECK_THAT(FeatureError(R"({"a": {"type": "str[*, 2]"}})"), Contains(".a.type: the type "));
}

TEST_CASE("a default of one number costs no more for a large row", "[record_features]") {
  const auto features = ReadFeatures(R"({"a": {"type": "int64[268435456]", "default": 3}})");
  CHECK(features[0].fallback->size() <= 8);
}

TEST_CASE("a default that is not of its feature's type is refused", "[record_features]") {
  const auto error = [](const std::string& type, const std::string& value) {
    return FeatureError(R"({"a": {"type": ")" + type + R"(", "default": )" + value + "}}");
  };
  CHECK(error("int64", "1.5") == ".a.default: the default 1.5 does not fit the type int64");
  CHECK_THAT(error("int64", "\"1\""), Contains("does not fit the type int64"));
  CHECK_THAT(error("int64", "null"), Contains("does not fit"));
  CHECK_THAT(error("int64", "true"), Contains("does not fit"));
  CHECK_THAT(error("int64", "9223372036854775808"), Contains("does not fit"));
  CHECK_THAT(error("int64[3]", "[1, 2]"), Contains("does not fit the type int64[3]"));
  CHECK_THAT(error("int64", "[1, 2]"), Contains("does not fit"));
  CHECK_THAT(error("int64[*, 2]", "[1, 2, 3]"), Contains("does not fit the type int64[*, 2]"));
  CHECK_THAT(error("int64[*, 2]", "1"), Contains("does not fit"));
  CHECK_THAT(error("float32", "1e39"), Contains("does not fit"));
  CHECK_THAT(error("float32[2]", "[1, [2]]"), Contains("does not fit"));
  CHECK_THAT(error("bytes[3]", "\"ab\""), Contains("does not fit the type uint8[3]"));
  CHECK_THAT(error("bytes[1]", "7"), Contains("does not fit"));
}

TEST_CASE("an unknown key of a feature is refused with those that there are", "[record_features]") {
  const std::string expected = "expected {feature: \"…\", type: \"…\", default: …}";
  CHECK(FeatureError(R"({"a": {"type": "int64", "defualt": 0}})") ==
        ".a.defualt: unknown key; " + expected);
  CHECK(FeatureError(R"({"a": {"feature": "b"}})") == ".a: the key type is missing; " + expected);
  CHECK(FeatureError(R"({"a": {}})") == ".a: the key type is missing; " + expected);
  CHECK(FeatureError(R"({"a": {"feature": 3, "type": "int64"}})") ==
        ".a.feature: expected the name of a feature, got 3");
  CHECK_THAT(FeatureError(R"({"a": {"feature": "", "type": "int64"}})"), Contains(".a.feature: "));
}

TEST_CASE("a type that records cannot have is refused", "[record_features]") {
  CHECK(FeatureError(R"({"a": "uint16"})") ==
        ".a: records hold bytes, int64 and float32, got uint16; `cast` makes other types");
  CHECK_THAT(FeatureError(R"({"a": {"type": "float64"}})"),
             Contains(".a.type: records hold bytes, int64 and float32, got float64"));
  CHECK_THAT(FeatureError(R"({"a": "int46"})"), Contains(".a: the type \"int46\": column 1: "));
  CHECK_THAT(FeatureError(R"({"a": "bytes"})"), Contains("expected bytes[n] or bytes[*]"));
  CHECK_THAT(FeatureError(R"({"a": 7})"),
             Contains(".a: expected a type such as int64") && Contains(", got 7"));
  CHECK_THAT(FeatureError(R"({"a": null})"), Contains(", got null"));
  CHECK_THAT(FeatureError(R"({"a": ["int64"]})"), Contains(", got [\"int64\"]"));
}

TEST_CASE("a name that a tensor of a batch cannot have is refused", "[record_features]") {
  CHECK(FeatureError(R"({"image/label": "int64"})")
            .starts_with(".image/label: a name is one word of at most 128 letters"));
  CHECK(FeatureError(R"({"example_id": "int64"})") ==
        ".example_id: batches have something else of this name; choose another one");
  CHECK_THAT(FeatureError(R"({"x": "int64[*]", "x_splits": "int64"})"),
             Contains("there are two tensors x_splits"));
  CHECK_THAT(FeatureError(R"({"x": "str[*]", "x_splits": "int64"})"),
             Contains("there are two tensors x_splits"));
}

TEST_CASE("features have to be a map with a name in it", "[record_features]") {
  for (const char* none : {"{}", "null", "[]"}) {
    CHECK(FeatureError(none) ==
          "expected a map from names to types, such as {d: \"bytes[194]\", s: int64}");
  }
  for (const char* other : {"[1]", "\"d\"", "3"}) {
    CHECK_THAT(FeatureError(other), Contains("expected a map from names to types"));
  }
}

}  // namespace
}  // namespace millrace
