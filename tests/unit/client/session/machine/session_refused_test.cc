// Tests of steps that workers refuse.
#include <catch2/catch.hpp>

#include "tests/unit/client/session/machine/machine.h"

namespace millrace::client {
namespace {

v1::Failing TheFailing(const v1::Report& report) {
  REQUIRE(report.failing_size() == 1);
  return report.failing(0);
}

TEST_CASE("a refused step is asked of another worker, and this one fails for a while",
          "[session][failing][refused]") {
  Machine m;
  m.Welcome();
  m.List({1, 2});
  m.Say(1, {.slots = 3});
  m.Say(2, {.slots = 3});
  const bool names_step = GENERATE(true, false);
  m.Refuse(1, names_step ? std::optional<std::uint64_t>(0) : std::nullopt, StatusCode::kUnavailable,
           "the plan is not ready");
  CHECK(m.Take<CloseStream>().empty());
  CHECK(m.AskedOf(1).size() == (names_step ? 2 : 0));
  CHECK(m.AskedOf(2).contains(0));
  CHECK(m.state->stats(m.now).moved_refused == (names_step ? 1 : 3));
  const v1::Failing failing = TheFailing(m.PassAttached(300 * kMs));
  CHECK(failing.reason() == "the plan is not ready");
  CHECK(failing.code() == 0);
  m.PassAttached(kSecond);
  CHECK(m.StreamTo(1) != 0);  // it goes on with its stream
}

TEST_CASE("a refusal of a step that the worker is not asked for says nothing",
          "[session][failing][refused]") {
  Machine m;
  m.Welcome();
  m.Join(1, {.slots = 3});
  m.Refuse(1, 7, StatusCode::kDataLoss);
  CHECK(m.AskedOf(1).size() == 3);
  CHECK(m.PassAttached(kSecond).failing_size() == 0);
}

/// The loop takes all steps below `steps`, which come from worker 2. Returns the report after that.
v1::Report PassSteps(Machine& m, std::uint64_t steps) {
  for (std::uint64_t step = m.state->next(); step < steps; ++step) {
    if (!m.state->holds(step)) REQUIRE(m.Arrive(m.StreamTo(2), step) == Verdict::kTaken);
    m.state->OnTaken(m.now);
  }
  return m.PassAttached(kSecond);
}

TEST_CASE("a refusal for good is reported with its code until the loop has passed the step",
          "[session][failing][refused]") {
  Machine m;
  m.Welcome();
  m.List({1, 2});
  m.Say(1, {.slots = 3});
  m.Say(2, {.slots = 1});
  REQUIRE(m.AskedOf(1) == std::set<std::uint64_t>{0, 1, 2});
  m.Refuse(1, 1, StatusCode::kDataLoss, "file x.bin is damaged");
  m.Arrive(m.StreamTo(1), 0);  // a good batch of another step changes nothing
  m.PassAttached(100 * kMs);
  CHECK(m.AskedOf(1) == std::set<std::uint64_t>{2});
  const v1::Failing failing = TheFailing(m.PassAttached(10 * kSecond));
  CHECK(failing.code() == static_cast<std::uint32_t>(StatusCode::kDataLoss));
  CHECK(failing.reason() == "file x.bin is damaged");
  CHECK(PassSteps(m, 1).failing_size() == 1);
  CHECK(PassSteps(m, 2).failing_size() == 0);
}

TEST_CASE("a refusal for good that names no step counts for all that is asked",
          "[session][failing][refused]") {
  Machine m;
  m.Welcome();
  m.List({1, 2});
  m.Say(1, {.slots = 3});
  m.Say(2, {.slots = 1});
  m.Refuse(1, std::nullopt, StatusCode::kInternal, "no");
  CHECK(m.AskedOf(1).empty());
  CHECK(PassSteps(m, 2).failing_size() == 1);
  CHECK(PassSteps(m, 3).failing_size() == 0);
}

TEST_CASE("a batch that a user's code fails to build is named until the loop has passed it",
          "[session][failing][refused]") {
  Machine m;
  m.Welcome();
  m.List({1, 2});
  m.Say(1, {.slots = 3});
  m.Say(2, {.slots = 1});
  m.Refuse(1, 1, StatusCode::kAborted, "ValueError");
  const v1::Failing failing = TheFailing(m.PassAttached(kSecond));
  CHECK(failing.code() == static_cast<std::uint32_t>(StatusCode::kAborted));
  REQUIRE(failing.refused_size() == 1);
  CHECK(FromProto(failing.refused(0).at()) == m.state->steps().At(1));
  CHECK(failing.refused(0).reason() == "ValueError");
  // The worker builds other steps, and another worker tries this one.
  CHECK(m.AskedOf(1).size() == 3);
  CHECK_FALSE(m.AskedOf(1).contains(1));
  m.Arrive(m.StreamTo(2), *m.AskedOf(2).begin());
  m.PassAttached(100 * kMs);
  CHECK(m.AskedOf(2).contains(1));
  CHECK(PassSteps(m, 1).failing_size() == 1);
  CHECK(PassSteps(m, 2).failing_size() == 0);
}

TEST_CASE("if every member has refused a step, the others come and the session waits",
          "[session][failing][refused]") {
  Machine m({.epochs = 1});
  m.Welcome();
  m.JoinBoth({.slots = 10}, {.slots = 10});
  m.state->SetWaiting(true, m.now);
  m.Refuse(1, 0, StatusCode::kAborted, "ValueError");
  REQUIRE(m.AskedOf(2).contains(0));
  m.Refuse(2, 0, StatusCode::kAborted, "ValueError");
  m.PassAttached(10 * kSecond);
  CHECK(m.state->asks().Find(0) == nullptr);
  CHECK(m.state->asks().steps().size() == 9);
  CHECK(m.PassAttached(kSecond).failing_size() == 2);
  CHECK(m.state->status().ok());  // the dispatcher ends the job
}

}  // namespace
}  // namespace millrace::client
