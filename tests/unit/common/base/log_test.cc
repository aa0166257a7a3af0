#include "common/base/log.h"

#include <cstdint>
#include <limits>

#include <catch2/catch.hpp>

namespace millrace {
namespace {

TEST_CASE("a number of any type is logged as it is written, without quotes", "[log]") {
  CHECK(LogField("k", -7).value == "-7");
  CHECK(LogField("k", std::int8_t{-7}).value == "-7");
  CHECK(LogField("k", std::uint8_t{200}).value == "200");
  CHECK(LogField("k", std::numeric_limits<std::int64_t>::min()).value == "-9223372036854775808");
  CHECK(LogField("k", std::numeric_limits<std::uint64_t>::max()).value == "18446744073709551615");
  CHECK(LogField("k", 0.1F).value == "0.1");
  CHECK(LogField("k", 2.5).value == "2.5");
  CHECK_FALSE(LogField("k", 7).quote);
}

TEST_CASE("a truth value is logged as a word and a character as itself", "[log]") {
  CHECK(LogField("k", true).value == "true");
  CHECK(LogField("k", false).value == "false");
  CHECK(LogField("k", 'x').value == "x");
}

TEST_CASE("an unknown log level is refused with the known ones", "[log]") {
  CHECK(ParseLogLevel("warning").value() == LogLevel::kWarning);
  CHECK(ParseLogLevel("loud").status().message() ==
        "log level 'loud' is unknown: expected debug, info, warning, error or off");
}

}  // namespace
}  // namespace millrace
