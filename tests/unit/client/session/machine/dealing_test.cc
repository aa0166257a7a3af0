// Tests of which worker is asked for which step.
#include <catch2/catch.hpp>

#include "tests/unit/client/session/machine/machine.h"

namespace millrace::client {
namespace {

using Steps = std::set<std::uint64_t>;

/// A session whose loop takes a batch each `step`, as it has done for a while. The last worker has
/// sent them, and is gone.
class Paced : public Machine {
 public:
  Paced(Duration step, const std::vector<std::uint64_t>& workers,
        const Machine::Options& given = LongEpoch())
      : Machine(given) {
    Welcome();
    List(workers);
    Say(workers.back(), {.slots = 1, .batch_ms = 1});
    for (int i = 0; i < 70; ++i) {
      Arrive(StreamTo(workers.back()), state->next());
      TakeBatch();
      PassAttached(step);
      state->OnLoopAsks(now);
    }
    Break(workers.back());
    List({workers.begin(), workers.end() - 1});
    first = state->next();
  }
  /// The steps that a worker is asked for, counted from the loop's next one.
  Steps Ahead(std::uint64_t worker) const {
    Steps ahead;
    for (const std::uint64_t step : AskedOf(worker)) ahead.insert(step - state->next());
    return ahead;
  }
  std::uint64_t first = 0;
};

// --- rule 1 ------------------------------------------------------------------------------------

TEST_CASE("steps within the bytes ahead are asked for, however late they are needed",
          "[dealing][reach]") {
  Machine::Options options = LongEpoch();
  options.prefetch_bytes = 29'000;
  Paced m(kSecond, {1, 9}, options);
  REQUIRE(m.state->window() == 30);
  m.Say(1, {.slots = 4000, .batch_ms = 1});
  CHECK(m.Ahead(1).size() == 30);
  CHECK_FALSE(m.state->wants_more());
}

TEST_CASE(
    "beyond the bytes ahead, steps are asked for that are needed 4 s after the first could "
    "be here",
    "[dealing][reach]") {
  Machine::Options options = LongEpoch();
  options.prefetch_bytes = 10;
  Paced m(100 * kMs, {1, 9}, options);
  m.Say(1, {.slots = 4000, .batch_ms = 10});
  // One more after 41 would be here 0.42 s from now.
  CHECK(m.Ahead(1).size() >= 41);
  CHECK(m.Ahead(1).size() <= 47);
  CHECK_FALSE(m.state->wants_more());
}

TEST_CASE("no step is asked for that lies 4,096 steps ahead", "[dealing][reach][J5]") {
  Machine m(LongEpoch());
  m.Welcome();
  m.Join(1, {.slots = 10'000, .batch_ms = 0.001, .threads = 400});
  CHECK(m.AskedOf(1).size() == 4096);
  CHECK_FALSE(m.state->wants_more());
}

TEST_CASE("before the loop's first step, 16 steps are asked for of each thread", "[dealing][reach]") {
  Machine m(LongEpoch());
  m.Welcome();
  const StreamId worker = m.Join(1, {.slots = 400, .batch_ms = 1, .threads = 2});
  CHECK(m.AskedOf(1).size() == 32);
  for (int i = 0; i < 2; ++i) {
    m.Arrive(worker, m.state->next());
    m.state->OnLoopAsks(m.now);
    m.TakeBatch();
  }
  m.Pass(50 * kMs);
  CHECK(m.AskedOf(1).size() > 300);
}

TEST_CASE("nothing is asked for beyond the end of the session", "[dealing][reach]") {
  Machine m({.epochs = 1});
  m.Welcome();
  m.Join(1, {.slots = 100});
  CHECK(m.AskedOf(1).size() == 10);
  CHECK_FALSE(m.state->wants_more());
}

TEST_CASE("a session without steps asks for none", "[dealing][reach]") {
  Machine m({.epochs = 1});
  m.Welcome();
  const StreamId worker = m.Join(1, {.slots = 100});
  for (std::uint64_t step = 0; step < 10; ++step) {
    m.Arrive(worker, step);
    m.TakeBatch();
  }
  REQUIRE(m.state->next() == m.state->steps().end());
  m.PassAttached(20 * kSecond);
  CHECK(m.AskedOf(1).empty());
  CHECK_FALSE(m.state->wants_more());
  CHECK(m.StreamTo(1) == 0);
}

// --- rule 2 ------------------------------------------------------------------------------------

TEST_CASE("the first member in the list gets what it has here in time", "[dealing][time]") {
  Paced m(200 * kMs, {1, 2, 9});
  m.Say(1, {.slots = 10, .batch_ms = 100});
  m.Say(2, {.slots = 10, .batch_ms = 100});
  // The next step waits for nobody; the others are needed 0.2 s apart, and worker 1 needs 0.1 s.
  CHECK(m.Ahead(1) == Steps{0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
}

TEST_CASE("what the first member has here too late goes to the next one", "[dealing][time]") {
  Paced m(50 * kMs, {1, 2, 9});
  m.Say(2, {.slots = 10, .batch_ms = 100});
  m.Say(1, {.slots = 10, .batch_ms = 100});
  const Steps first = m.Ahead(1);
  const Steps second = m.Ahead(2);
  CHECK(first.size() == 10);
  CHECK(second.size() == 10);
}

TEST_CASE("a batch that comes in the second half of the time until it is needed is not in time",
          "[dealing][time]") {
  // The next step is asked of one of them. The one behind is needed in 105 ms.
  const auto asks_first = [](double batch_ms) {
    Machine::Options options = LongEpoch();
    options.epochs = 1;
    options.steps.examples = 720;  // 72 steps, of which two are left
    Paced m(105 * kMs, {1, 2, 9}, options);
    m.List({2, 1});
    m.Say(1, {.slots = 1, .batch_ms = 1});
    m.Say(2, {.slots = 1, .batch_ms = batch_ms});
    return m.AskedOf(2).contains(m.first + 1);
  };
  CHECK(asks_first(50));
  CHECK_FALSE(asks_first(55));
}

// --- rule 3 ------------------------------------------------------------------------------------

TEST_CASE("a slow member gets the step that is needed when it is ready", "[dealing][late]") {
  Machine m(LongEpoch());
  m.Welcome();
  m.List({1, 2});
  m.Say(1, {.slots = 2, .batch_ms = 100});
  m.Say(2, {.slots = 1, .batch_ms = 1050});
  REQUIRE(m.AskedOf(1) == Steps{0, 1});
  // Worker 1 would have its third batch here after 0.3 s, so it builds 8 until worker 2 has one.
  CHECK(m.AskedOf(2) == Steps{2 + 8});
}

TEST_CASE("a slow member idles if what it could build lies beyond reach", "[dealing][late]") {
  Machine m({.epochs = 1});  // 10 steps
  m.Welcome();
  m.List({1, 2});
  m.Say(1, {.slots = 2, .batch_ms = 100});
  m.Say(2, {.slots = 1, .batch_ms = 5000});
  CHECK(m.AskedOf(2).empty());
  CHECK(m.state->wants_more());
}

TEST_CASE("a step goes to the member that can begin it first, whose other jobs are done",
          "[dealing][turn]") {
  Paced m(1 * kMs, {1, 2, 9});
  m.Say(2, {.slots = 4, .batch_ms = 500, .threads = 0.2, .turn_ms = 1000});
  REQUIRE(m.Ahead(2) == Steps{0, 1, 2, 3});
  m.Say(1, {.slots = 4, .batch_ms = 500, .threads = 0.2, .turn_ms = 9000});
  // The second one could have a few more here before the first one's turn has come.
  CHECK_FALSE(m.Ahead(1).empty());
  CHECK_FALSE(m.Ahead(1).contains(4));
}

TEST_CASE("members alike get steps in turn, those needed first", "[dealing][late]") {
  Machine m(LongEpoch());
  m.Welcome();
  m.List({1, 2});
  m.Say(1, {.slots = 2, .batch_ms = 100});
  m.Say(2, {.slots = 2, .batch_ms = 100});
  Steps all = m.AskedOf(1);
  all.merge(m.AskedOf(2));
  CHECK(all == Steps{0, 1, 2, 3});
}

// --- rule 4 ------------------------------------------------------------------------------------

TEST_CASE("the next step goes to the fastest member, whether it has a slot or not",
          "[dealing][next][J2]") {
  Machine m(LongEpoch());
  m.Welcome();
  m.List({1, 2});
  m.Say(1, {.slots = 2, .batch_ms = 100});
  m.Say(2, {.slots = 2, .batch_ms = 5000});
  REQUIRE(m.AskedOf(1) == Steps{0, 1});
  m.Break(1);
  CHECK(m.AskedOf(2).contains(0));
  CHECK(m.state->asks().Of(Machine::IdOf(2)).open >= 2);
}

TEST_CASE("the next step is asked for while built batches fill all slots and all memory",
          "[dealing][next][J2]") {
  Machine::Options options = LongEpoch();
  options.prefetch_bytes = 10;
  Machine m(options);
  m.Welcome();
  m.List({1, 2});
  m.Say(1, {.slots = 1, .batch_ms = 100});
  m.Say(2, {.slots = 1, .batch_ms = 100});
  REQUIRE(m.AskedOf(1) == Steps{0});
  const std::uint64_t behind = *m.AskedOf(2).begin();
  m.Say(2, {.slots = 1, .batch_ms = 100, .built = {behind}});
  m.Break(1);
  m.state->SetWaiting(true, m.now);
  CHECK(m.AskedOf(2).contains(0));
}

TEST_CASE("the next step is asked for as soon as the loop has taken the one before",
          "[dealing][next][J2]") {
  Machine m(LongEpoch());
  m.Welcome();
  const StreamId worker = m.Join(1, {.slots = 1, .batch_ms = 100});
  for (std::uint64_t step = 0; step < 20; ++step) {
    REQUIRE(m.AskedOf(1).contains(step));
    m.Arrive(worker, step);
    m.TakeBatch();
  }
}

// --- rule 5 ------------------------------------------------------------------------------------

TEST_CASE("a member that has built nothing gets one step for each of its threads",
          "[dealing][unknown]") {
  Machine m(LongEpoch());
  m.Welcome();
  m.List({1, 2});
  m.Say(1, {.slots = 8, .batch_ms = 0, .threads = 3});
  m.Say(2, {.slots = 2, .batch_ms = 0, .threads = 16});
  CHECK(m.AskedOf(1) == Steps{0, 1, 2});
  CHECK(m.AskedOf(2) == Steps{3, 4});
}

TEST_CASE("while nobody has built, nothing is late", "[dealing][unknown]") {
  Machine m(LongEpoch());
  m.Welcome();
  m.List({1, 2});
  m.Say(1, {.slots = 1, .batch_ms = 0});
  m.Say(2, {.slots = 1, .batch_ms = 0});
  m.state->SetWaiting(true, m.now);
  m.PassAttached(60 * kSecond);
  CHECK(m.state->stats(m.now).asks_copy == 0);
  CHECK(m.AskedOf(1) == Steps{0});
  CHECK(m.AskedOf(2) == Steps{1});
}

TEST_CASE("a member that has built nothing is taken to be like the others", "[dealing][unknown]") {
  Machine m(LongEpoch());
  m.Welcome();
  m.List({1, 2, 3});
  m.Say(1, {.slots = 2, .batch_ms = 500});
  m.Say(3, {.slots = 1, .batch_ms = 20});
  m.Say(2, {.slots = 8, .batch_ms = 0});
  // The median is 500 ms, so the step that worker 3 can have here first is not worker 2's.
  REQUIRE(m.AskedOf(2).size() == 1);
  CHECK(*m.AskedOf(2).begin() > *m.AskedOf(3).begin() + 20);
}

// --- rules 7 and 8 -----------------------------------------------------------------------------

TEST_CASE("a worker is asked for nothing before it has spoken", "[dealing][failing][J3]") {
  Machine m(LongEpoch());
  m.Welcome();
  m.List({1});
  m.PassAttached(5 * kSecond);
  CHECK(m.AskedOf(1).empty());
  m.Say(1);
  CHECK(m.AskedOf(1).size() == 8);
  m.Break(1);
  m.PassAttached(2 * kSecond);
  REQUIRE(m.StreamTo(1) != 0);
  CHECK(m.AskedOf(1).empty());
}

TEST_CASE("after a failure a worker is asked for one step, until that is here",
          "[dealing][failing]") {
  Machine m(LongEpoch());
  m.Welcome();
  m.Join(1);
  m.Break(1);
  m.PassAttached(kSecond);
  m.Say(1);
  CHECK(m.AskedOf(1) == Steps{0});
  m.PassAttached(kSecond);
  CHECK(m.AskedOf(1) == Steps{0});
  m.Arrive(m.StreamTo(1), 0);
  m.PassAttached(10 * kMs);
  CHECK(m.AskedOf(1).size() == 8);
}

TEST_CASE(
    "the next step does not go to a worker on trial that has its step, unless there is no "
    "other",
    "[dealing][failing]") {
  Machine m(LongEpoch());
  m.Welcome();
  m.List({1, 2, 3});
  m.Say(3, {.slots = 1, .batch_ms = 50});
  m.Say(2, {.slots = 1, .batch_ms = 500});
  m.Say(1, {.slots = 1, .batch_ms = 100});
  REQUIRE(m.AskedOf(3) == Steps{0});
  m.Break(1);
  m.PassAttached(600 * kMs);
  m.Say(1, {.slots = 1, .batch_ms = 100});
  REQUIRE(m.AskedOf(1).size() == 1);
  const std::uint64_t trial = *m.AskedOf(1).begin();
  REQUIRE(trial != 0);
  m.Break(3);
  CHECK(m.AskedOf(1) == Steps{trial});
  CHECK(m.AskedOf(2).contains(0));
  m.Break(2);
  CHECK(m.AskedOf(1) == Steps{0, trial});
}

TEST_CASE("small batches are dealt by the 20 ms, and by a quarter of the slots at most",
          "[dealing][runs]") {
  Machine m(LongEpoch());
  m.Welcome();
  const StreamId worker = m.Join(1, {.slots = 400, .batch_ms = 16, .threads = 32});
  REQUIRE(m.AskedOf(1).size() == 400);
  // 40 steps are 20 ms. As long as fewer slots are free, nothing is dealt.
  for (std::uint64_t step = 0; step < 39; ++step) m.Arrive(worker, step);
  m.PassAttached(100 * kMs);
  CHECK(m.AskedOf(1).size() == 400 - 39);
  m.Arrive(worker, 39);
  m.PassAttached(10 * kMs);
  CHECK(m.AskedOf(1).size() == 400);
  CHECK(m.state->asks().Of(Machine::IdOf(1)).runs == 1);
}

// --- refusals ----------------------------------------------------------------------------------

TEST_CASE("a step that two workers could not build is passed over, and the others come",
          "[dealing][refused]") {
  Machine m(LongEpoch());
  m.Welcome();
  m.List({1, 2, 3});
  for (std::uint64_t worker = 1; worker <= 3; ++worker) m.Say(worker, {.slots = 2});
  for (int tries = 0; tries < 2; ++tries) {
    const StepAsks* const asks = m.state->asks().Find(0);
    REQUIRE(asks != nullptr);
    m.Refuse(asks->all()[0].worker.number().n, 0, StatusCode::kAborted, "ValueError");
  }
  CHECK(m.state->asks().Find(0) == nullptr);
  m.PassAttached(kSecond);
  CHECK(m.state->asks().Find(0) == nullptr);
  CHECK(m.state->asks().steps().size() == 6);
}

TEST_CASE("a slow member is not given a later step that it has refused", "[dealing][refused]") {
  Machine m(LongEpoch());
  m.Welcome();
  m.List({1, 2});
  m.Say(1, {.slots = 2, .batch_ms = 100});
  m.Say(2, {.slots = 1, .batch_ms = 1050});
  REQUIRE(m.AskedOf(2) == Steps{10});
  m.Refuse(2, 10, StatusCode::kAborted);
  CHECK(m.AskedOf(2) == Steps{11});
}

}  // namespace
}  // namespace millrace::client
