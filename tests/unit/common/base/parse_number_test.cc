#include "common/base/parse_number.h"

#include <cmath>
#include <limits>

#include <rapidcheck.h>
#include <rapidcheck/catch.h>
#include <catch2/catch.hpp>

#include "common/base/json_text.h"

namespace millrace {
namespace {

template <class T>
std::string ErrorOf(const Result<T>& result) {
  REQUIRE_FALSE(result.ok());
  CHECK(result.status().code() == StatusCode::kInvalidArgument);
  return result.status().message();
}

TEST_CASE("the whole text has to be the number", "[numbers]") {
  CHECK(ParseNumber<int>("2").value() == 2);
  CHECK(ParseNumber<int>("-2").value() == -2);
  CHECK(ParseNumber<std::uint8_t>("255").value() == 255);
  for (const char* text : {"", " 2", "2 ", "+2", "2.7", "2.0", "2e3", "0x10", "two", "-", "--2"}) {
    CAPTURE(text);
    CHECK(ErrorOf(ParseNumber<std::uint64_t>(text)) ==
          std::string("expected an integer of at least 0, got '") + text + "'");
    CHECK_FALSE(ParseNumber<int>(text).ok());
  }
}

TEST_CASE("bounds belong to what is taken, and the message names them", "[numbers]") {
  const Bounds<int> bounds{.min = 1, .max = 1024};
  CHECK(ParseNumber("1", bounds).value() == 1);
  CHECK(ParseNumber("1024", bounds).value() == 1024);
  for (const char* text : {"0", "1025", "-1", "99999999999999999999"}) {
    CAPTURE(text);
    CHECK(ErrorOf(ParseNumber(text, bounds)) ==
          std::string("expected an integer from 1 to 1024, got '") + text + "'");
  }
  CHECK(ErrorOf(ParseNumber<std::uint8_t>("256")) ==
        "expected an integer from 0 to 255, got '256'");
  CHECK(ErrorOf(ParseNumber<std::int64_t>("x", {.max = 5})) ==
        "expected an integer of at most 5, got 'x'");
  CHECK_FALSE(ParseNumber<std::uint64_t>("-1").ok());
}

TEST_CASE("zeros before a number are taken or refused, and never octal", "[numbers]") {
  CHECK(ParseNumber<int>("010").value() == 10);
  CHECK(ErrorOf(ParseNumber<int>("010", {.min = 0, .max = 99}, LeadingZeros::kRefused)) ==
        "expected an integer from 0 to 99 without zeros before it, got '010'");
  CHECK(ParseNumber<int>("0", {}, LeadingZeros::kRefused).value() == 0);
  CHECK_FALSE(ParseNumber<int>("-01", {}, LeadingZeros::kRefused).ok());
}

TEST_CASE("every number reads back from its text", "[numbers]") {
  rc::prop("signed", [](std::int64_t number) {
    RC_ASSERT(ParseNumber<std::int64_t>(std::to_string(number)).value() == number);
  });
  rc::prop("unsigned", [](std::uint64_t number) {
    RC_ASSERT(ParseNumber<std::uint64_t>(std::to_string(number)).value() == number);
  });
}

TEST_CASE("decimal numbers are finite and within bounds", "[numbers]") {
  CHECK(ParseDecimal("2").value() == 2);
  CHECK(ParseDecimal("0.25").value() == 0.25);
  CHECK(ParseDecimal("-1e-3").value() == -1e-3);
  for (const char* text : {"", "inf", "nan", "-inf", "1e400", "1,5", "0x10", "1s", " 1", "+1"}) {
    CAPTURE(text);
    CHECK(ErrorOf(ParseDecimal(text)) == std::string("expected a number, got '") + text + "'");
  }
  CHECK(ErrorOf(ParseDecimal("0.05", {.min = 0.1, .max = 86400}, "seconds")) ==
        "expected seconds from 0.1 to 86400, got '0.05'");
  CHECK_FALSE(ParseDecimal("nan", {.min = 0, .max = 1}).ok());
}

TEST_CASE("bytes have a unit, or are whole", "[numbers]") {
  CHECK(ParseBytes("4096").value() == 4096);
  CHECK(ParseBytes("4096B").value() == 4096);
  CHECK(ParseBytes("300MB").value() == 300'000'000);
  CHECK(ParseBytes("1.5GiB").value() == 1'610'612'736);
  CHECK(ParseBytes("1kB").value() == 1000);
  CHECK(ParseBytes("2TiB").value() == std::uint64_t{2} << 40);
  for (const char* text : {"", "0", "-1", "2.7", "2.7B", "MB", "3 MB", "3mb", "3 apples", "inf",
                           "900000000TiB", "0.1B", "0kB", "1.2.3MB", "99999999999999999999"}) {
    CAPTURE(text);
    CHECK(ErrorOf(ParseBytes(text)) ==
          std::string("expected bytes, such as 4096, 300MB or 4GiB, got '") + text + "'");
  }
}

TEST_CASE("a string of JSON escapes quotes, backslashes and control characters", "[json]") {
  CHECK(JsonText("a/b.bin") == "\"a/b.bin\"");
  CHECK(JsonText("a\"b\\c\nd") == "\"a\\\"b\\\\c\\u000ad\"");
  CHECK(JsonText("é") == "\"é\"");
}

}  // namespace
}  // namespace millrace
