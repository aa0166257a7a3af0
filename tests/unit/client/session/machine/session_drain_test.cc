// Tests of workers that drain, and of a session without a dispatcher.
#include <catch2/catch.hpp>

#include "tests/unit/client/session/machine/machine.h"

namespace millrace::client {
namespace {

// --- drains ------------------------------------------------------------------------------------

TEST_CASE("a worker that drains keeps what it has begun, and the rest goes to others",
          "[session][drain]") {
  Machine m({.epochs = 1});
  m.Welcome();
  m.JoinBoth({.slots = 10}, {.slots = 10});
  REQUIRE(m.AskedOf(1).size() == 10);
  m.Say(1, {.slots = 0, .built = {0, 1}, .building = {2}});
  CHECK(m.AskedOf(1) == std::set<std::uint64_t>{0, 1, 2});
  CHECK(m.AskedOf(2).size() == 7);
  CHECK(m.state->stats(m.now).moved_drained == 7);
  CHECK(m.PassAttached(kSecond).failing_size() == 0);
  for (std::uint64_t step = 0; step < 3; ++step) {
    CHECK(m.Arrive(m.StreamTo(1), step) == Verdict::kTaken);
  }
  m.Break(1, OkStatus());
  CHECK_FALSE(m.logger->Has(LogLevel::kWarning, "worker failed"));
  CHECK(m.StreamTo(1) == 0);
}

TEST_CASE("a worker that only says that it goes away drains, too", "[session][drain]") {
  Machine m({.epochs = 1});
  m.Welcome();
  const auto [first, second] = m.JoinBoth({.slots = 10}, {.slots = 10});
  m.words.clear();
  v1::BatchFragment fragment;
  fragment.set_going_away(true);
  m.state->OnBatchesFragment(first, fragment, 0, m.now);
  CHECK(m.AskedOf(1).empty());
  CHECK(m.AskedOf(2).size() == 10);
  CHECK(m.logger->Has(LogLevel::kInfo, "worker drains"));
}

TEST_CASE("a drain that is taken back ends with a word that has slots", "[session][drain]") {
  Machine m({.epochs = 1});
  m.Welcome();
  m.Join(1, {.slots = 10});
  m.Say(1, {.slots = 0});
  CHECK(m.AskedOf(1).empty());
  m.PassAttached(2 * kSecond);
  CHECK(m.AskedOf(1).empty());
  m.Say(1, {.slots = 10});
  m.Pass(10 * kMs);
  CHECK(m.AskedOf(1).size() == 10);
}

TEST_CASE("a worker that drained and lost its stream is asked again once a list names it",
          "[session][drain]") {
  Machine m({.epochs = 1});
  m.Welcome();
  m.Join(1, {.slots = 10});
  m.Say(1, {.slots = 0});
  m.Break(1);
  m.PassAttached(20 * kSecond);
  CHECK(m.StreamTo(1) == 0);
  m.List({1});
  m.Say(1, {.slots = 10});
  CHECK(m.AskedOf(1).size() == 10);
}

// --- without a dispatcher ------------------------------------------------------------------------

TEST_CASE("without a dispatcher a session goes on with its members, by the same rules",
          "[session][deserted]") {
  Machine m({.steps = {.examples = 100'000, .size = 5, .world_size = 2}});
  m.Welcome();
  m.JoinBoth({.slots = 4, .batch_ms = 100}, {.slots = 4, .batch_ms = 100});
  m.state->OnAttachClosed(m.attach, Unavailable("gone"), m.now);
  for (int i = 0; i < 300; ++i) {
    m.Pass(100 * kMs);
    m.TakeWants();
    for (const std::uint64_t worker : {1, 2}) {
      REQUIRE(m.AskedOf(worker).size() >= 3);
      m.Arrive(m.StreamTo(worker), *m.AskedOf(worker).begin());
      m.Say(worker, {.slots = 4, .batch_ms = 100});
    }
    while (m.state->holds(m.state->next())) m.TakeBatch();
  }
  CHECK(m.state->next() >= 590);
  CHECK(m.state->stats(m.now).moved_failed == 0);
}

TEST_CASE("without a dispatcher the steps of a worker that fails go to the others",
          "[session][deserted]") {
  Machine m({.epochs = 1});
  m.Welcome();
  m.JoinBoth({.slots = 10}, {.slots = 10});
  m.state->OnAttachClosed(m.attach, Unavailable("gone"), m.now);
  for (int i = 0; i < 10; ++i) {
    m.Pass(500 * kMs);
    m.TakeWants();
    m.Say(1, {.slots = 10, .built = {9}});
    m.Say(2, {.slots = 10});
  }
  m.Break(1);
  CHECK(m.AskedOf(2).size() >= 9);
}

}  // namespace
}  // namespace millrace::client
