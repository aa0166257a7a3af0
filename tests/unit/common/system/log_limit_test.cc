#include "common/system/log_limit.h"

#include <catch2/catch.hpp>

namespace millrace {
namespace {

TEST_CASE("a flood is a line in ten seconds, with the number of those before it", "[log_limit]") {
  using std::chrono::seconds;
  const Time begin{};
  LogLimit limit;
  CHECK(limit.MayLog(begin) == 0u);
  for (int i = 0; i < 9; ++i) CHECK_FALSE(limit.MayLog(begin + seconds(i + 1)));
  CHECK(limit.MayLog(begin + seconds(10)) == 9u);
  CHECK_FALSE(limit.MayLog(begin + seconds(19)));
  CHECK(limit.MayLog(begin + seconds(60)) == 1u);
}

}  // namespace
}  // namespace millrace
