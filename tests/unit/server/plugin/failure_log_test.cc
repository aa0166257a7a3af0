#include "server/plugin/failure_log.h"

#include <catch2/catch.hpp>

#include "tests/support/fake_clock.h"
#include "tests/support/recording_logger.h"

namespace millrace {
namespace {

TEST_CASE("tries that failed are logged at once, then at most every ten seconds with their number",
          "[plugin]") {
  const auto logger = std::make_shared<test::RecordingLogger>();
  const auto clock = std::make_shared<FakeClock>();
  FailureLog log(logger, clock, "m:Source");
  PluginFailure failure;
  failure.type = "ValueError";
  failure.message = "bad\nand more";
  log.Add(7, failure);
  CHECK(logger->Has("a try of a plugin has failed plugin=m:Source example=7 cause=ValueError: bad "
                    "failed_tries=1"));
  for (int i = 0; i < 5; ++i) log.Add(8, failure);
  CHECK_FALSE(logger->Has("example=8"));
  clock->Advance(LogLimit::kBetween);
  log.Add(std::nullopt, failure);
  CHECK(logger->Has("example=not known cause=ValueError: bad failed_tries=6"));
}

}  // namespace
}  // namespace millrace
