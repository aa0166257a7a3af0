#include <catch2/catch.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "common/tune/tuner.h"

namespace millrace::tune {
namespace {

Setting Threads(double value, double most) {
  return {.name = "threads", .value = value, .least = 1, .most = most};
}

/// A tuner of one setting whose owner proposes what the test says.
struct Driver {
  std::vector<Setting> settings{Threads(4, 8)};
  Tuner tuner{};
  Time now{};
  bool settling = false;

  double value() const { return settings[0].value; }
  bool Second(double rate, double waiting) {
    now = now + std::chrono::seconds(1);
    return tuner.Step({rate, waiting, waiting > 0 ? "build" : "", settling}, settings, now);
  }
  int Seconds(int count, double rate, double waiting) {
    int news = 0;
    for (int i = 0; i < count; ++i) news += Second(rate, waiting) ? 1 : 0;
    return news;
  }
};

TEST_CASE("a setting goes up where somebody waits, and stays there if the rate rises", "[tune]") {
  Driver d;
  d.settings[0].up = 6;
  CHECK(d.Seconds(4, 10, 0.3) == 0);
  CHECK(d.Second(10, 0.3));
  CHECK(d.value() == 6);
  REQUIRE(d.tuner.decisions().size() == 1);
  CHECK(d.tuner.decisions()[0].outcome == Outcome::kTrying);
  CHECK(d.tuner.decisions()[0].waited_for == "build");
  // The first seconds after a change do not count.
  CHECK(d.Seconds(2, 10, 0.3) == 0);
  CHECK(d.Seconds(4, 14, 0.3) == 0);
  CHECK(d.Second(14, 0.3));
  CHECK(d.value() == 6);
  CHECK(ToLine(d.tuner.decisions()[0]) ==
        "waited for build: threads 4 -> 6; 10.0 batches/s, 30.0 % waiting -> 14.0 batches/s, "
        "30.0 %: kept");
}

TEST_CASE("a change that takes effect late is measured from then on", "[tune]") {
  Driver d;
  d.settings[0].up = 6;
  d.Seconds(5, 10, 0.3);
  REQUIRE(d.value() == 6);
  d.settling = true;
  CHECK(d.Seconds(30, 10, 0.3) == 0);
  d.settling = false;
  CHECK(d.Seconds(6, 14, 0.3) == 0);
  CHECK(d.Second(14, 0.3));
  CHECK(d.tuner.decisions()[0].rate_before == 10);
  CHECK(d.tuner.decisions()[0].rate_after == 14);
  CHECK(d.tuner.decisions()[0].outcome == Outcome::kKept);
}

TEST_CASE("a change that never takes effect is undone", "[tune]") {
  Driver d;
  d.settings[0].up = 6;
  d.Seconds(5, 10, 0.3);
  d.settling = true;
  d.Seconds(static_cast<int>(Tuner::kLongestSettle) + 30, 10, 0.3);
  CHECK(d.value() == 4);
}

TEST_CASE("it stays up if waiting falls although the rate does not rise", "[tune]") {
  Driver d;
  d.settings[0].up = 8;
  d.Seconds(5, 10, 0.3);
  d.Seconds(7, 10, 0.1);
  CHECK(d.value() == 8);
  CHECK(d.tuner.decisions()[0].outcome == Outcome::kKept);
}

TEST_CASE("what did not help is undone, and tried again ever later", "[tune]") {
  Driver d;
  d.settings[0].up = 8;
  d.Seconds(5, 10, 0.3);
  CHECK(d.value() == 8);
  d.Seconds(7, 10, 0.3);
  CHECK(d.value() == 4);
  CHECK(d.tuner.decisions()[0].outcome == Outcome::kUndone);
  // A change at 5 s; the next tries 180 and 540 s after the last one was undone.
  std::vector<int> tried;
  std::size_t known = 1;
  for (int second = 13; second < 1200; ++second) {
    d.Second(10, 0.3);
    if (d.tuner.decisions().size() > known) tried.push_back(second);
    known = d.tuner.decisions().size();
  }
  REQUIRE(tried.size() == 2);
  CHECK(tried[0] == 12 + 180);
  CHECK(tried[1] == tried[0] + 7 + 540);
}

TEST_CASE("a rise that noise explains is none", "[tune]") {
  std::mt19937_64 random(7);
  int kept = 0;
  for (int round = 0; round < 200; ++round) {
    Driver d;
    d.settings[0].up = 8;
    std::normal_distribution<double> rate(10, 2);
    std::normal_distribution<double> waiting(0.3, 0.05);
    for (int i = 0; i < 12; ++i) d.Second(rate(random), waiting(random));
    kept += d.tuner.decisions()[0].outcome == Outcome::kKept ? 1 : 0;
  }
  // Two standard errors, with two ways to be kept: about one in fifteen.
  CHECK(kept < 30);
}

TEST_CASE("what was given back is taken back in the first second in which somebody waits",
          "[tune]") {
  Driver d;
  d.settings[0].down = 2;
  d.Seconds(30, 10, 0);
  REQUIRE(d.value() == 2);
  d.settings[0].up = 6;
  // One wait of many seconds would be too little for a trial.
  CHECK(d.Second(10, 0.02));
  CHECK(d.value() == 4);
  CHECK(d.tuner.decisions().back().waited_for == "build");
  // It is kept, although the rate stays.
  CHECK(d.Seconds(7, 10, 0.02) == 1);
  CHECK(d.value() == 4);
  CHECK(d.tuner.decisions().back().outcome == Outcome::kKept);
  SECTION("and given back again only after a while") {
    CHECK(d.Seconds(172, 10, 0) == 0);
    CHECK(d.Second(10, 0));
    CHECK(d.value() == 2);
    d.Seconds(10, 10, 0);
    CHECK(d.Second(10, 0.02));
    CHECK(d.value() == 4);
    // That rest was short: the next pause is three times as long.
    d.Seconds(7, 10, 0);
    CHECK(d.Seconds(532, 10, 0) == 0);
    CHECK(d.Second(10, 0));
  }
}

TEST_CASE("nothing is taken back of which not all is in use", "[tune]") {
  Driver d;
  d.settings[0].down = 2;
  d.Seconds(30, 10, 0);
  REQUIRE(d.value() == 2);
  CHECK(d.Seconds(4, 10, 0.3) == 0);
  CHECK(d.value() == 2);
}

TEST_CASE("where nobody waits, what is not needed is given back", "[tune]") {
  Driver d;
  d.settings[0].down = 2;
  CHECK(d.Seconds(19, 10, 0) == 0);
  CHECK(d.Second(10, 0));
  CHECK(d.value() == 2);
  CHECK(d.tuner.decisions()[0].waited_for.empty());
  SECTION("and kept while nobody waits") {
    CHECK(d.Seconds(9, 10, 0) == 0);
    CHECK(d.Second(10, 0));
    CHECK(d.tuner.decisions()[0].outcome == Outcome::kKept);
    CHECK(d.value() == 2);
  }
  SECTION("and taken again in the first second in which somebody waits") {
    d.Seconds(3, 10, 0);
    CHECK(d.Second(10, 0.05));
    CHECK(d.tuner.decisions()[0].outcome == Outcome::kUndone);
    CHECK(d.value() == 4);
    CHECK(d.Seconds(179, 10, 0) == 0);
    CHECK(d.Second(10, 0));
  }
}

TEST_CASE("pinned settings and limits are kept", "[tune]") {
  Driver d;
  SECTION("pinned") {
    d.settings[0].pinned = true;
    d.settings[0].up = 8;
    d.settings[0].down = 1;
    CHECK(d.Seconds(100, 10, 0.5) + d.Seconds(100, 10, 0) == 0);
    CHECK(d.value() == 4);
  }
  SECTION("no more than the limit") {
    d.settings[0].up = 100;
    d.Seconds(5, 10, 0.5);
    CHECK(d.value() == 8);
  }
  SECTION("no less than the limit") {
    d.settings[0].least = 3;
    d.settings[0].down = 1;
    d.Seconds(20, 10, 0);
    CHECK(d.value() == 3);
  }
  SECTION("at the limit nothing is tried") {
    d.settings[0].value = 8;
    d.settings[0].up = 100;
    CHECK(d.Seconds(100, 10, 0.5) == 0);
  }
}

TEST_CASE("one setting is changed at a time", "[tune]") {
  Driver d;
  d.settings.push_back(Threads(1, 8));
  d.settings[0].up = 8;
  d.settings[1].up = 8;
  d.Seconds(5, 10, 0.5);
  CHECK(d.settings[0].value == 8);
  CHECK(d.settings[1].value == 1);
  d.Seconds(7, 10, 0.5);  // undone
  CHECK(d.settings[0].value == 4);
  d.Seconds(5, 10, 0.5);
  CHECK(d.settings[0].value == 4);
  CHECK(d.settings[1].value == 8);
}

TEST_CASE("a restart leaves a trial without a verdict", "[tune]") {
  Driver d;
  d.settings[0].up = 8;
  d.Seconds(5, 10, 0.5);
  d.tuner.Restart();
  CHECK(d.tuner.decisions()[0].outcome == Outcome::kNotJudged);
  CHECK(d.Seconds(4, 10, 0.5) == 0);
}

TEST_CASE("the last decisions are remembered", "[tune]") {
  Driver d;
  for (int i = 0; i < 100; ++i) {
    d.settings[0].value = 4;
    d.settings[0].up = 8;
    d.Seconds(5, 10, 0.5);
    d.tuner.Restart();
  }
  CHECK(d.tuner.decisions().size() == Tuner::kMostDecisions);
  CHECK(d.tuner.decisions().back().number == 100);
}

}  // namespace
}  // namespace millrace::tune
