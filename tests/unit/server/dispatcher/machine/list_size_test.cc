#include "server/dispatcher/machine/list_size.h"

#include <chrono>

#include <catch2/catch.hpp>

namespace millrace {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Time kFirst{seconds(1000)};

TEST_CASE("a list has 8 times a consumer's share of the workers, and at least 8", "[list]") {
  CHECK(BaseListSize(0, 1) == 8);
  CHECK(BaseListSize(1000, 1000) == 8);
  CHECK(BaseListSize(256, 8) == 256);
  CHECK(BaseListSize(255, 64) == 32);  // 31.9
  CHECK(BaseListSize(100, 0) == 800);
  CHECK(BaseListSize(100'000, 1) == kMaxListMembers);
}

TEST_CASE("a list grows at once", "[list]") {
  ListSize size;
  size.Need(8, kMaxListMembers, kFirst);
  CHECK(size.members() == 8);
  size.Need(13, kMaxListMembers, kFirst);
  CHECK(size.members() == 13);
  size.Need(0xFFFFFFFF, kMaxListMembers, kFirst);
  CHECK(size.members() == kMaxListMembers);
}

TEST_CASE("a list doubles once a second at most, up to a limit", "[list]") {
  ListSize size;
  CHECK_FALSE(size.MayDouble(kFirst));
  size.Need(400, kMaxListMembers, kFirst);
  REQUIRE(size.MayDouble(kFirst));
  size.Double(kFirst);
  CHECK(size.members() == 800);
  CHECK_FALSE(size.MayDouble(kFirst + std::chrono::milliseconds(999)));
  REQUIRE(size.MayDouble(kFirst + seconds(1)));
  size.Double(kFirst + seconds(1));
  CHECK(size.members() == kMaxListMembers);
  CHECK_FALSE(size.MayDouble(kFirst + seconds(10)));
}

TEST_CASE("members that were not needed for a minute leave, and no others", "[list]") {
  ListSize size;
  size.Need(64, kMaxListMembers, kFirst);
  for (int second = 1; second < 60; ++second) {
    size.Need(second == 30 ? 20 : 10, kMaxListMembers, kFirst + seconds(second));
    CHECK(size.members() == 64);
  }
  size.Need(10, kMaxListMembers, kFirst + seconds(60));
  CHECK(size.members() == 20);  // the 20th was needed half a minute ago
  size.Need(10, kMaxListMembers, kFirst + seconds(119));
  CHECK(size.members() == 20);
  size.Need(10, kMaxListMembers, kFirst + seconds(120));
  CHECK(size.members() == 10);
}

TEST_CASE("a list that is needed to its end keeps its members", "[list]") {
  ListSize size;
  size.Need(16, kMaxListMembers, kFirst);
  for (int second = 1; second < 200; ++second) {
    size.Need(second % 50 == 0 ? 16 : 8, kMaxListMembers, kFirst + seconds(second));
  }
  CHECK(size.members() == 16);
}

TEST_CASE("a list above the limit is cut down to it after 10 s, used or not", "[list]") {
  ListSize size;
  size.Need(64, 64, kFirst);
  size.Need(64, 32, kFirst + seconds(1));
  size.Need(64, 32, kFirst + milliseconds(9999));
  CHECK(size.members() == 64);
  SECTION("it is cut, and stays so") {
    for (int second = 10; second < 100; ++second) {
      size.Need(64, 32, kFirst + seconds(second));
      CHECK(size.members() == 32);
    }
  }
  SECTION("the limit rises again in time") {
    size.Need(64, 64, kFirst + seconds(10));
    size.Need(64, 32, kFirst + seconds(19));
    CHECK(size.members() == 64);
  }
  SECTION("it doubles meanwhile, and has as long anew") {
    size.Double(kFirst + seconds(9));
    size.Need(64, 32, kFirst + seconds(18));
    CHECK(size.members() == 128);
    size.Need(64, 32, kFirst + seconds(19));
    CHECK(size.members() == 32);
  }
}

TEST_CASE("a list that begins above the limit has 10 s, too", "[list]") {
  ListSize size;
  size.Need(20, 8, kFirst);
  CHECK(size.members() == 20);
  size.Need(20, 8, kFirst + seconds(10));
  CHECK(size.members() == 8);
}

TEST_CASE("a pause of the dispatcher does not count as time without need", "[list]") {
  ListSize size;
  size.Need(16, kMaxListMembers, kFirst);
  size.ShiftTimes(seconds(300));
  size.Need(8, kMaxListMembers, kFirst + seconds(330));
  CHECK(size.members() == 16);
  size.Need(8, kMaxListMembers, kFirst + seconds(360));
  CHECK(size.members() == 8);
}

}  // namespace
}  // namespace millrace
