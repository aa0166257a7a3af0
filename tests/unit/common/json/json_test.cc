#include "common/json/json.h"

#include <string>

#include <catch2/catch.hpp>

namespace millrace::test {
namespace {

std::string Rewritten(const std::string& text) { return Json::Parse(text).value().ToText(); }

std::string JsonRefusal(const std::string& text, const JsonLimits& limits = {}) {
  const Result<Json> read = Json::Parse(text, limits);
  REQUIRE_FALSE(read.ok());
  CHECK(read.status().code() == StatusCode::kDataLoss);
  return read.status().message();
}

TEST_CASE("every kind of JSON value is read and written", "[json]") {
  CHECK(Rewritten("null") == "null");
  CHECK(Rewritten("[true, false]") == "[true,false]");
  CHECK(Rewritten("[0, 18446744073709551615, -9223372036854775808]") ==
        "[0,18446744073709551615,-9223372036854775808]");
  CHECK(Rewritten("[1.0, 1e22, 0.1, -0.0]") == "[1.0,1e+22,0.1,-0.0]");
  CHECK(Rewritten(R"("a\"\u00e9\n")") == R"("a\"é\n")");
  CHECK(Rewritten("[]") == "[]");
  CHECK(Rewritten("{}") == "{}");
}

TEST_CASE("an object that was read is in the order of its keys", "[json]") {
  CHECK(Rewritten(R"({"b": 1, "a": {"d": [], "c": 2}})") == R"({"a":{"c":2,"d":[]},"b":1})");
}

TEST_CASE("an object that is made is in the order in which it was made", "[json]") {
  Json json = Json::Object{{"b", 1u}, {"a", "x"}};
  json["c"].Append(true);
  json["b"] = 2u;
  CHECK(json.ToText() == R"({"b":2,"a":"x","c":[true]})");
}

TEST_CASE("a number keeps its type", "[json]") {
  const Json numbers = Json::Parse("[7, -7, 7.0]").value();
  CHECK(numbers.AsArray()[0].is_unsigned());
  CHECK(numbers.AsArray()[0].is_integer());
  CHECK_FALSE(numbers.AsArray()[1].is_unsigned());
  CHECK(numbers.AsArray()[1].AsInteger() == -7);
  CHECK_FALSE(numbers.AsArray()[2].is_integer());
  CHECK(numbers.AsArray()[2].AsDouble() == 7.0);
}

TEST_CASE("text that is no JSON is refused with its place", "[json]") {
  CHECK(JsonRefusal("[1, 2") == "is no JSON: at byte 6");
  CHECK(JsonRefusal("[1] x") == "is no JSON: at byte 5");
  CHECK(JsonRefusal("\"\xff\"") == "is no JSON: at byte 2");
  CHECK(JsonRefusal("1e999") == "is no JSON: a number is too large");
  CHECK(JsonRefusal("") == "is no JSON: at byte 1");
}

TEST_CASE("a text beyond a limit is refused", "[json]") {
  CHECK(Json::Parse("[[1]]", {.max_depth = 2}).ok());
  CHECK(JsonRefusal("[[[1]]]", {.max_depth = 2}) == "is nested more than 2 deep");
  CHECK(Json::Parse("[1, 2]", {.max_values = 4}).ok());
  CHECK(JsonRefusal("[1, 2, 3]", {.max_values = 4}) == "has more than 4 keys and values");
  CHECK(JsonRefusal(std::string(600, '[')) == "is nested more than 512 deep");
}

TEST_CASE("the last value of a key counts unless keys have to be unique", "[json]") {
  const std::string twice = R"({"a": 1, "b": 2, "a": 3})";
  CHECK(Rewritten(twice) == R"({"a":3,"b":2})");
  CHECK(JsonRefusal(twice, {.unique_keys = true}) == "has the key 'a' twice in one object");
  CHECK(Json::Parse(R"([{"a": 1}, {"a": 2}])", {.unique_keys = true}).ok());
}

TEST_CASE("bytes that are no UTF-8 are replaced when a value is written", "[json]") {
  CHECK(Json("a\xff").ToText() == "\"a\xef\xbf\xbd\"");
}

TEST_CASE("values are equal if their types and contents are", "[json]") {
  CHECK(Json::Parse(R"({"a": [1]})").value() == Json(Json::Object{{"a", Json::Array{1u}}}));
  CHECK_FALSE(Json(1u) == Json(1.0));
}

TEST_CASE("a key is found only in an object that has it", "[json]") {
  const Json json = Json::Parse(R"({"a": 1})").value();
  REQUIRE(json.Find("a") != nullptr);
  CHECK(json.Find("a")->AsUnsigned() == 1);
  CHECK(json.Find("b") == nullptr);
  CHECK(Json(1u).Find("a") == nullptr);
}

}  // namespace
}  // namespace millrace::test
