#include "client/session_option_table.h"

#include <catch2/catch.hpp>

#include <set>
#include <string>

namespace millrace {
namespace {

const SessionOption& Find(const std::string& name) { return FindSessionOption(name); }

std::string Print(const std::string& name, const SessionOptions& options) {
  const SessionOption& option = Find(name);
  return PlainText(option.parameter, option.member.Get(options));
}

/// Sets an option to a text, as the command line gives it.
Status SetText(const SessionOption& option, const std::string& text, SessionOptions& options) {
  const Result<ParamValue> value = ReadText(option.parameter, text);
  if (!value.ok()) return value.status().WithContext(option.parameter.name);
  option.member.Set(*value, options);
  return OkStatus();
}

TEST_CASE("every option has a name and a flag of its own, and help", "[session_options]") {
  std::set<std::string> names;
  std::set<std::string> flags;
  for (const SessionOption& option : SessionOptionTable()) {
    CHECK(names.insert(option.parameter.name).second);
    CHECK((option.flag.empty() || flags.insert(option.flag).second));
    CHECK_FALSE(option.parameter.help.empty());
    CHECK(&Find(option.parameter.name) == &option);
  }
}

TEST_CASE("defaults are within their bounds, and printed as they are read", "[session_options]") {
  const SessionOptions defaults;
  CHECK(CheckSessionOptions(defaults).ok());
  for (const SessionOption& option : SessionOptionTable()) {
    const std::string& name = option.parameter.name;
    SessionOptions read;
    CHECK(option.Set(option.member.Get(defaults), read).ok());
    if (option.flag.empty() || option.type_name.empty() || name == "overrides") continue;
    CHECK(SetText(option, Print(name, defaults), read).ok());
    CHECK(option.member.Get(read) == option.member.Get(defaults));
  }
}

TEST_CASE("a number out of its bounds is refused in the same words from anywhere",
          "[session_options]") {
  const SessionOption& priority = Find("priority");
  SessionOptions options;
  CHECK(priority.Set(ParamValue(std::int64_t{1001}), options) ==
        InvalidArgument("priority: expected an integer from 1 to 1000, got 1001"));
  CHECK(SetText(priority, "1001", options) ==
        InvalidArgument("priority: expected an integer from 1 to 1000, got '1001'"));
  CHECK(options.priority == 1);
  options.priority = 1001;
  CHECK(CheckSessionOptions(options) ==
        InvalidArgument("priority: expected an integer from 1 to 1000, got 1001"));
}

TEST_CASE("a number without an upper bound is said to have none", "[session_options]") {
  CHECK(Expected(Find("prefetch_bytes").parameter) == "a number of bytes of at least 0");
}

TEST_CASE("a number on the command line is decimal digits and nothing else", "[session_options]") {
  SessionOptions options;
  for (const char* text : {"", "-1", "0x10", " 1", "1 ", "9223372036854775808"}) {
    CHECK(SetText(Find("prefetch_bytes"), text, options).code() == StatusCode::kInvalidArgument);
  }
  CHECK(SetText(Find("prefetch_bytes"), "010", options).ok());
  CHECK(options.prefetch_bytes == 10);
  CHECK(SetText(Find("prefetch_bytes"), "64MiB", options).ok());
  CHECK(options.prefetch_bytes == std::uint64_t{64} << 20);
}

TEST_CASE("a time is a number of seconds from 0", "[session_options]") {
  SessionOptions options;
  const SessionOption& timeout = Find("connect_timeout");
  for (const char* text : {"", "-1", "nan", "1s"}) {
    CHECK(SetText(timeout, text, options).code() == StatusCode::kInvalidArgument);
  }
  CHECK(SetText(timeout, "0.5", options).ok());
  CHECK(options.connect_timeout_seconds == 0.5);
}

TEST_CASE("index numbers are of two types", "[session_options]") {
  SessionOptions options;
  CHECK(SetText(Find("index_dtype"), "int64", options).ok());
  CHECK(options.index_dtype == DType::kInt64);
  CHECK(Print("index_dtype", options) == "int64");
  CHECK(SetText(Find("index_dtype"), "int16", options) ==
        InvalidArgument(
            "index_dtype: expected one of int32, int64, got 'int16' (did you mean int32?)"));
  options.index_dtype = DType::kUint8;
  CHECK(CheckSessionOptions(options).code() == StatusCode::kInvalidArgument);
}

TEST_CASE("a rank that the world size does not have is refused", "[session_options]") {
  SessionOptions options;
  options.rank = options.world_size = 2;
  CHECK(CheckSessionOptions(options) == InvalidArgument("rank 2 of world size 2: expected 0 to 1"));
  options.world_size = 0;
  CHECK(CheckSessionOptions(options).code() == StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace millrace
