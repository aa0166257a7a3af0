#include <catch2/catch.hpp>

#include "common/base/log.h"

namespace millrace {
namespace {

TEST_CASE("an unknown log level is refused with the known ones", "[log]") {
  CHECK(ParseLogLevel("warning").value() == LogLevel::kWarning);
  CHECK(ParseLogLevel("loud").status().message() ==
        "log level 'loud' is unknown: expected debug, info, warning, error or off");
}

}  // namespace
}  // namespace millrace
