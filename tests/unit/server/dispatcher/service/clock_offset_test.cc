#include "server/dispatcher/service/clock_offset.h"

#include <catch2/catch.hpp>

namespace millrace {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// A round trip to a peer whose clock is `offset` ahead.
RoundTrip Trip(Duration offset, Duration there, Duration held, Duration back,
               Time asked = {seconds(100)}) {
  RoundTrip trip;
  trip.asked = asked;
  trip.ask_received = asked + there + offset;
  trip.sent = trip.ask_received + held;
  trip.received = asked + there + held + back;
  return trip;
}

}  // namespace

TEST_CASE("an even round trip gives the offset exactly, however long the peer held it", "[trace]") {
  for (const Duration offset : {Duration(seconds(50)), Duration(-seconds(50)), Duration{0}}) {
    ClockOffset clock;
    CHECK(!clock.known());
    clock.Add(Trip(offset, milliseconds(3), milliseconds(700), milliseconds(3)));
    CHECK(clock.known());
    CHECK(clock.offset() == offset);
    CHECK(clock.error() == milliseconds(3));
  }
}

TEST_CASE("an uneven round trip is off by no more than it says", "[trace]") {
  for (int there = 0; there <= 20; there += 4) {
    ClockOffset clock;
    clock.Add(Trip(seconds(5), milliseconds(there), milliseconds(100), milliseconds(20 - there)));
    CHECK(clock.error() == milliseconds(10));
    CHECK(clock.offset() - seconds(5) <= clock.error());
    CHECK(seconds(5) - clock.offset() <= clock.error());
  }
}

TEST_CASE("the shortest round trip counts, before or after longer ones", "[trace]") {
  ClockOffset clock;
  clock.Add(Trip(seconds(5), milliseconds(40), milliseconds(1), milliseconds(0)));
  clock.Add(Trip(seconds(5), milliseconds(1), milliseconds(250), milliseconds(1)));
  clock.Add(Trip(seconds(5), milliseconds(0), milliseconds(1), milliseconds(30)));
  CHECK(clock.offset() == seconds(5));
  CHECK(clock.error() == milliseconds(1));
}

TEST_CASE("processes of one clock have no offset, unless a round trip shows one", "[trace]") {
  ClockOffset clock(true);
  CHECK(clock.known());
  clock.Add(Trip(Duration{0}, milliseconds(9), milliseconds(1), milliseconds(1)));
  CHECK(clock.offset() == Duration{0});
  CHECK(clock.error() == Duration{0});
  // The peer turns out to have a time namespace of its own.
  clock.Add(Trip(seconds(5), milliseconds(1), milliseconds(1), milliseconds(1)));
  CHECK(clock.offset() == seconds(5));
  CHECK(clock.error() == milliseconds(1));
}

TEST_CASE("round trips that cannot have been are ignored", "[trace]") {
  ClockOffset clock;
  clock.Add(RoundTrip{});
  clock.Add(Trip(Duration{0}, milliseconds(-5), milliseconds(1), milliseconds(1)));
  clock.Add(Trip(Duration{0}, milliseconds(1), milliseconds(-5), milliseconds(1)));
  RoundTrip far = Trip(Duration{0}, milliseconds(1), milliseconds(1), milliseconds(1));
  far.ask_received = far.sent = Time{Duration::max()};
  clock.Add(far);
  far.ask_received = Time{Duration::min()};
  clock.Add(far);
  CHECK(!clock.known());
}

}  // namespace millrace
