// Tests of a worker that drains.
#include "tests/unit/server/worker/machine/machine_fixture.h"

namespace millrace {
namespace {

using test::kMs;
using test::kStream;
using test::Machine;

v1::WorkResponse Order(bool drain) {
  v1::WorkResponse response;
  drain ? response.set_drain(true) : response.set_undrain(true);
  return response;
}

TEST_CASE("a drain says slots 0 and going_away at once, and begins nothing but a consumer's next",
          "[worker][drain]") {
  Machine m(2);
  m.Wants(4);
  m.Messages();
  const auto building = m.state.NextBuild(m.now);
  REQUIRE(building);
  SECTION("an operator's") { m.Say(Order(true)); }
  SECTION("the process's own") { m.state.Drain(m.now); }
  m.Act();
  const auto messages = m.Messages();
  REQUIRE(messages.size() == 2);
  CHECK(messages[0].has_alive());
  CHECK(messages[0].alive().slots() == 0);
  CHECK(messages[0].alive().building_size() == 1);
  CHECK(messages[1].going_away());
  CHECK(m.report.draining());
  CHECK(m.report.slots() == 0);
  CHECK_FALSE(m.state.Ready());
  CHECK_FALSE(m.state.NextBuild(m.now));
  CHECK_FALSE(m.state.Idle());
  // The consumer goes elsewhere with the rest.
  v1::WantList list = m.List(1);
  m.state.OnWants(kStream, list, m.now);
  m.state.OnBuilt(*building, std::make_shared<BuiltBatch>(), 10, 0.1, {}, m.now);
  m.Act();
  CHECK(m.sent.contains(kStream));
  CHECK_FALSE(m.state.Idle());
  m.Sent();
  // The step is still in the list until it has arrived.
  CHECK(m.state.Idle());
}

TEST_CASE("a drain does not wait for batches that are kept, nor for those that a trainer holds",
          "[worker][drain]") {
  Machine m;
  m.Wants(3);
  m.AddTwin(0);
  for (int i = 0; i < 3; ++i) {
    m.Build();
    m.Sent();
  }
  CHECK(m.state.queue().kept_bytes() == 300);
  m.state.Drain(m.now);
  m.Act();
  CHECK(m.state.Idle());
}

TEST_CASE("a drain waits for what is built and asked for, and not for what is withdrawn",
          "[worker][drain]") {
  Machine m;
  v1::WantList list = m.List(3);
  list.set_credit_bytes(0);
  m.state.OnWants(kStream, list, m.now);
  m.Act();
  for (int i = 0; i < 3; ++i) m.Build();
  m.Sent();
  m.state.Drain(m.now);
  m.Act();
  CHECK_FALSE(m.state.Idle());
  list.clear_runs();
  m.state.OnWants(kStream, list, m.now);
  m.Act();
  CHECK(m.state.queue().kept_bytes() == 200);
  CHECK(m.state.Idle());
}

TEST_CASE("an operator takes back a drain that an operator ordered", "[worker][drain]") {
  Machine m;
  m.Wants(2);
  m.Say(Order(true));
  m.Act();
  m.Messages();
  m.Say(Order(false));
  m.Act();
  const auto messages = m.Messages();
  REQUIRE(messages.size() == 1);
  CHECK(messages[0].alive().slots() == 2);
  CHECK_FALSE(m.report.draining());
  CHECK(m.report.slots() == 2);
  CHECK(m.state.Ready());
  REQUIRE(m.Build());
  m.Sent();
  REQUIRE(m.Build());
  m.Sent();
  m.Messages();
  // Another drain is said again.
  m.Say(Order(true));
  m.Act();
  CHECK(m.Messages().back().going_away());
}

TEST_CASE("nobody takes back the drain of a process that ends", "[worker][drain]") {
  Machine m;
  m.Wants(0);
  bool ordered = false;
  SECTION("that was ordered before") { ordered = true; }
  SECTION("that was not ordered") {}
  if (ordered) m.Say(Order(true));
  m.state.Drain(m.now);
  m.Act();
  m.Messages();
  m.Say(Order(false));
  m.Act();
  CHECK(m.state.draining());
  const auto alive = m.AliveAfter(1000 * kMs);
  REQUIRE(alive);
  CHECK(alive->alive().slots() == 0);
}

}  // namespace
}  // namespace millrace
