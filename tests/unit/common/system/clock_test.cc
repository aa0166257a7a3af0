#include <catch2/catch.hpp>

#include "tests/support/fake_clock.h"

namespace millrace {
namespace {

TEST_CASE("a fake clock moves only when told", "[clock]") {
  FakeClock clock;
  const Time t = clock.Now();
  CHECK(clock.Now() == t);
  clock.Advance(std::chrono::seconds(3));
  CHECK(ToSeconds(clock.Now() - t) == 3.0);
}

}  // namespace
}  // namespace millrace
