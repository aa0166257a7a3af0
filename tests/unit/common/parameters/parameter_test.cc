#include "common/parameters/parameter.h"

#include <catch2/catch.hpp>

#include <limits>
#include <string>
#include <vector>

#include "common/parameters/make_parameter.h"
#include "common/parameters/member.h"
#include "common/parameters/params.h"

namespace millrace {
namespace {

const std::vector<Parameter>& OneOfEachType() {
  static const std::vector<Parameter> parameters = {
      {.name = "bool", .types = {ParamType::kBool}},
      {.name = "int", .types = {ParamType::kInt}, .min = -2, .max = 8},
      {.name = "seed", .types = {ParamType::kSeed}},
      {.name = "bytes", .types = {ParamType::kBytes}, .min = 1 << 20},
      {.name = "seconds", .types = {ParamType::kSeconds}, .max = 60},
      {.name = "number", .types = {ParamType::kNumber}},
      {.name = "text", .types = {ParamType::kText}},
      {.name = "word", .types = {ParamType::kText}, .allowed = {"hash", "name"}},
      {.name = "ints", .types = {ParamType::kInts}, .min = 0, .count = 2},
      {.name = "numbers", .types = {ParamType::kNumbers}},
      {.name = "texts", .types = {ParamType::kTexts}},
      {.name = "lists", .types = {ParamType::kTextLists}},
      {.name = "named numbers", .types = {ParamType::kNamedNumbers}},
      {.name = "named texts", .types = {ParamType::kNamedTexts}},
      {.name = "tree", .types = {ParamType::kTree}},
  };
  return parameters;
}

const Parameter& Named(const char* name) {
  const Parameter* const found = FindParameter(OneOfEachType(), name);
  REQUIRE(found != nullptr);
  return *found;
}

TEST_CASE("a parameter says which values it takes", "[parameters]") {
  CHECK(Expected(Named("bool")) == "true or false");
  CHECK(Expected(Named("int")) == "an integer from -2 to 8");
  CHECK(Expected(Named("seed")) == "an integer from 0 to 18446744073709551615");
  CHECK(Expected(Named("bytes")) == "a number of bytes of at least 1MiB");
  CHECK(Expected(Named("seconds")) == "a number of seconds of at most 60");
  CHECK(Expected(Named("word")) == "one of hash, name");
  CHECK(Expected(Named("ints")) == "a list of 2 integers such as [9, 1], each of at least 0");
  CHECK(Expected({.name = "both", .types = {ParamType::kInt, ParamType::kText}}) ==
        "an integer, or a text");
  CHECK(Expected({.name = "switch", .types = {ParamType::kBool}, .allowed = {"on", "off"}}) ==
        "on or off");
}

TEST_CASE("a value is taken by parameters of its type alone, within their bounds", "[parameters]") {
  const std::vector<std::pair<const char*, ParamValue>> good = {
      {"bool", true},
      {"int", std::int64_t{-2}},
      {"seed", std::int64_t{-1}},
      {"bytes", std::int64_t{1 << 20}},
      {"seconds", 0.5},
      {"number", 0.5},
      {"text", "a"},
      {"word", "name"},
      {"ints", std::vector<std::int64_t>{0, 1}},
      {"numbers", std::vector<ParamNumber>{0.5, std::int64_t{2}}},
      {"texts", std::vector<std::string>{"a"}},
      {"lists", std::vector<std::vector<std::string>>{{"a"}, {"b", "c"}}},
      {"named numbers", std::map<std::string, ParamNumber>{{"a", 0.5}}},
      {"named texts", std::map<std::string, std::string>{{"a", "b"}}},
      {"tree", ParamTree{R"({"a": 1})"}},
  };
  for (const auto& [name, value] : good) {
    INFO(name);
    CHECK(IsTaken(Named(name), value));
    CHECK_FALSE(IsTaken(Named(name), ParamValue()));
    // A number is an integer, too, and a list of integers is one of numbers.
    if (std::string_view(name) != "bool") CHECK_FALSE(IsTaken(Named("bool"), value));
    if (std::string_view(name) != "tree") CHECK_FALSE(IsTaken(Named("tree"), value));
  }
  const double infinite = std::numeric_limits<double>::infinity();
  const std::vector<std::pair<const char*, ParamValue>> wrong = {
      {"int", std::int64_t{9}},
      {"int", std::int64_t{-3}},
      {"bytes", std::int64_t{5}},
      {"seconds", -0.5},
      {"seconds", 61.0},
      {"number", infinite},
      {"text", ""},
      {"word", "nam"},
      {"ints", std::vector<std::int64_t>{0}},
      {"ints", std::vector<std::int64_t>{0, -1}},
      {"numbers", std::vector<ParamNumber>{}},
      {"numbers", std::vector<ParamNumber>{infinite}},
      {"texts", std::vector<std::string>{""}},
      {"lists", std::vector<std::vector<std::string>>{{}}},
      {"named texts", std::map<std::string, std::string>{}},
  };
  for (const auto& [name, value] : wrong) {
    INFO(name);
    CHECK_FALSE(IsTaken(Named(name), value));
  }
  Parameter empty = Named("texts");
  empty.may_be_empty = true;
  CHECK(IsTaken(empty, std::vector<std::string>{}));
}

TEST_CASE("a text is read as a value, and the value is printed as a text that reads alike",
          "[parameters]") {
  const std::vector<std::pair<const char*, std::string>> texts = {
      {"bool", "false"},     {"int", "-2"},     {"seed", "18446744073709551615"},
      {"bytes", "67108864"}, {"seconds", "10"}, {"text", "a: b"},
      {"word", "hash"},
  };
  for (const auto& [name, text] : texts) {
    INFO(name);
    const Result<ParamValue> value = ReadText(Named(name), text);
    REQUIRE(value.ok());
    CHECK(PlainText(Named(name), *value) == text);
  }
  CHECK(*ReadText(Named("bytes"), "64MiB") == ParamValue(std::int64_t{64} << 20));
  const Parameter on_off = {.name = "tune", .types = {ParamType::kBool}, .allowed = {"on", "off"}};
  CHECK(*ReadText(on_off, "off") == ParamValue(false));
  CHECK(PlainText(on_off, true) == "on");
}

TEST_CASE("a text that a parameter does not take is refused with what is expected",
          "[parameters]") {
  const auto refusal = [](const Parameter& parameter, const std::string& text) {
    return ReadText(parameter, text).status();
  };
  CHECK(refusal(Named("bool"), "yes") == InvalidArgument("expected true or false, got 'yes'"));
  CHECK(refusal(Named("int"), "9") == InvalidArgument("expected an integer from -2 to 8, got '9'"));
  CHECK(refusal(Named("int"), "x") == InvalidArgument("expected an integer from -2 to 8, got 'x'"));
  CHECK(refusal(Named("word"), "nam") ==
        InvalidArgument("expected one of hash, name, got 'nam' (did you mean name?)"));
  CHECK(refusal(Named("seconds"), "nan").code() == StatusCode::kInvalidArgument);
  const auto even = [](const ParamValue& value) {
    return std::get<std::string>(value).size() % 2 == 0 ? OkStatus() : InvalidArgument("odd");
  };
  CHECK(refusal(TextParameter("checked", "", even), "abc") == InvalidArgument("odd"));
  CHECK(ReadText(TextParameter("checked", "", even), "").ok());
}

TEST_CASE("a value is written as one line of YAML", "[parameters]") {
  const auto written = [](const char* name, const ParamValue& value) {
    return FormatParamValue(Named(name), value);
  };
  CHECK(written("int", ParamValue()) == "null");
  CHECK(written("number", 2.0) == "2.0");
  CHECK(written("number", 1e-9) == "1e-09");
  CHECK(written("text", "a \"b\"") == R"("a \"b\"")");
  CHECK(written("word", "hash") == "hash");
  CHECK(written("numbers", std::vector<ParamNumber>{std::int64_t{1}, 0.5}) == "[1, 0.5]");
  CHECK(written("lists", std::vector<std::vector<std::string>>{{"a"}, {"b", "c"}}) ==
        R"([["a"], ["b", "c"]])");
  CHECK(written("named numbers", std::map<std::string, ParamNumber>{{"a", 0.5}}) == "{a: 0.5}");
  CHECK(written("named texts", std::map<std::string, std::string>{{"a", "b"}}) == R"({a: "b"})");
}

TEST_CASE("parameters that are not given have their defaults, and unknown ones are refused",
          "[parameters]") {
  const std::vector<Parameter> parameters = {
      WithDefault(IntParameter("size", "", 1, 9), std::int64_t{4}),
      {.name = "axis", .types = {ParamType::kInt}, .required = true},
      BoolParameter("keep", ""),
  };
  const auto params = WithDefaults(parameters, Params({{"axis", std::int64_t{1}}}));
  REQUIRE(params.ok());
  CHECK(params->GetInt("size") == 4);
  CHECK(params->GetInts("axis") == std::vector<std::int64_t>{1});
  CHECK_FALSE(params->is_set("keep"));
  CHECK(params->IsDefault(parameters[0]));
  CHECK(WithDefaults(parameters, Params()).status() ==
        InvalidArgument("axis: is missing; expected an integer"));
  CHECK(WithDefaults(parameters, Params({{"axes", true}})).status() ==
        InvalidArgument("axes: there is no such parameter"));
  CHECK(WithDefaults(parameters, Params({{"axis", true}})).status() ==
        InvalidArgument("axis: expected an integer"));
}

TEST_CASE("equal parameters alone have equal keys", "[parameters]") {
  const auto key = [](const ParamValue& value) { return ParamsKey(Params({{"a", value}})); };
  CHECK(key(0.5) == key(0.5));
  CHECK(key(1.0) != key(std::int64_t{1}));
  CHECK(key("1") != key(std::int64_t{1}));
  CHECK(key(std::vector<std::string>{"a", "b"}) != key(std::vector<std::string>{"a,b"}));
}

struct Options {
  bool on = false;
  std::uint32_t count = 3;
  std::uint64_t bytes = std::numeric_limits<std::uint64_t>::max();
  DType dtype = DType::kInt32;
  LogLevel level = LogLevel::kInfo;
};

TEST_CASE("members of options are values of parameters", "[parameters]") {
  Options options;
  const Member<Options> dtype = &Options::dtype;
  const Member<Options> level = &Options::level;
  const Member<Options> count = &Options::count;
  CHECK(dtype.Get(options) == ParamValue("int32"));
  dtype.Set("int64", options);
  level.Set("error", options);
  count.Set(std::int64_t{7}, options);
  Member<Options>(&Options::on).Set(true, options);
  CHECK(options.dtype == DType::kInt64);
  CHECK(options.level == LogLevel::kError);
  CHECK(options.count == 7);
  CHECK(options.on);
  // Bounds refuse it.
  CHECK(Member<Options>(&Options::bytes).Get(options) == ParamValue(std::int64_t{-1}));
}

}  // namespace
}  // namespace millrace
