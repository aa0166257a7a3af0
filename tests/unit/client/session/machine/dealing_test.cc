// Tests of which worker is asked for which step.
#include <catch2/catch.hpp>

#include <numeric>

#include "common/base/hash.h"
#include "tests/unit/client/session/machine/machine.h"

namespace millrace::client {
namespace {

using Steps = std::set<std::uint64_t>;

/// A session over one long epoch.
Machine::Options Long() {
  Machine::Options options;
  options.steps = {.examples = 10'000'000, .size = 5, .world_size = 2};
  options.prefetch_bytes = 1'000'000;
  return options;
}

/// A session whose loop takes a batch each `step`, as it has done for a while. The last worker has
/// sent them, and is gone.
class Paced : public Machine {
 public:
  Paced(Duration step, const std::vector<std::uint64_t>& workers,
        const Machine::Options& given = Long())
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
  Machine::Options options = Long();
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
  Machine::Options options = Long();
  options.prefetch_bytes = 10;
  Paced m(100 * kMs, {1, 9}, options);
  m.Say(1, {.slots = 4000, .batch_ms = 10});
  // One more after 41 would be here 0.42 s from now.
  CHECK(m.Ahead(1).size() >= 41);
  CHECK(m.Ahead(1).size() <= 47);
  CHECK_FALSE(m.state->wants_more());
}

TEST_CASE("no step is asked for that lies 4,096 steps ahead", "[dealing][reach][J5]") {
  Machine m(Long());
  m.Welcome();
  m.Join(1, {.slots = 10'000, .batch_ms = 0.001});
  CHECK(m.AskedOf(1).size() == 4096);
  CHECK_FALSE(m.state->wants_more());
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

TEST_CASE("a batch that comes in the last tenth of its building time is not in time",
          "[dealing][time]") {
  // The next step is asked of one of them. The one behind is needed in 105 ms.
  const auto asks_first = [](double batch_ms) {
    Machine::Options options = Long();
    options.epochs = 1;
    options.steps.examples = 720;  // 72 steps, of which two are left
    Paced m(105 * kMs, {1, 2, 9}, options);
    m.List({2, 1});
    m.Say(1, {.slots = 1, .batch_ms = 1});
    m.Say(2, {.slots = 1, .batch_ms = batch_ms});
    return m.AskedOf(2).contains(m.first + 1);
  };
  CHECK(asks_first(90));
  CHECK_FALSE(asks_first(100));
}

// --- rule 3 ------------------------------------------------------------------------------------

TEST_CASE("a slow member gets the step that is needed when it is ready", "[dealing][late]") {
  Machine m(Long());
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

TEST_CASE("members alike get steps in turn, those needed first", "[dealing][late]") {
  Machine m(Long());
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
  Machine m(Long());
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
  Machine::Options options = Long();
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
  Machine m(Long());
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
  Machine m(Long());
  m.Welcome();
  m.List({1, 2});
  m.Say(1, {.slots = 8, .batch_ms = 0, .threads = 3});
  m.Say(2, {.slots = 2, .batch_ms = 0, .threads = 16});
  CHECK(m.AskedOf(1) == Steps{0, 1, 2});
  CHECK(m.AskedOf(2) == Steps{3, 4});
}

TEST_CASE("while nobody has built, nothing is late", "[dealing][unknown]") {
  Machine m(Long());
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
  Machine m(Long());
  m.Welcome();
  m.List({1, 2, 3});
  m.Say(1, {.slots = 2, .batch_ms = 500});
  m.Say(3, {.slots = 1, .batch_ms = 5});
  m.Say(2, {.slots = 8, .batch_ms = 0});
  // The median is 500 ms, so the step that worker 3 can have here first is not worker 2's.
  REQUIRE(m.AskedOf(2).size() == 1);
  CHECK(*m.AskedOf(2).begin() > *m.AskedOf(3).begin() + 50);
}

// --- rule 6 ------------------------------------------------------------------------------------

/// A session whose worker 1 lives and sends nothing. Those that `send` bring a batch at a time.
class Late : public Machine {
 public:
  explicit Late(double batch_ms = 100, std::uint32_t slots = 1)
      : Machine(Long()), batch_ms_(static_cast<int>(batch_ms)) {
    Welcome();
    List({1, 2, 3, 4});
    Say(1, {.slots = slots, .batch_ms = batch_ms});
    Say(2, {.slots = slots, .batch_ms = batch_ms});
    REQUIRE(AskedOf(1).contains(0));
    state->SetWaiting(true, now);
  }
  std::uint64_t copies() { return state->stats(now).asks_copy; }
  /// Lets time pass. The workers that send need batch_ms for a batch; none sends step `kept`.
  void Work(int ms) {
    for (; ms > 0; ms -= 50) {
      PassAttached(std::min(ms, 50) * kMs);
      passed_ += 50;
      if (passed_ % batch_ms_ != 0) continue;
      for (const std::uint64_t worker : sends) {
        for (const std::uint64_t step : AskedOf(worker)) {
          if (step == kept) continue;
          Arrive(StreamTo(worker), step);
          break;
        }
      }
    }
  }
  std::set<std::uint64_t> sends{2};
  std::uint64_t kept = 0;

 private:
  const int batch_ms_;
  int passed_ = 0;
};

TEST_CASE("a step that is late by half a second is also asked of another member",
          "[dealing][copy]") {
  Late m;
  m.Work(550);  // it was due after 0.1 s
  CHECK(m.copies() == 0);
  m.Work(200);
  CHECK(m.copies() == 1);
  CHECK(m.AskedOf(1).contains(0));  // it is not withdrawn
  CHECK(m.AskedOf(2).contains(0));
  CHECK(m.Arrive(m.StreamTo(2), 0) == Verdict::kTaken);
  CHECK_FALSE(m.AskedOf(1).contains(0));
  CHECK(m.state->answered()->kind == AskKind::kCopy);
}

TEST_CASE("batches that take long are late after one such time", "[dealing][copy]") {
  Late m(2000);
  m.Work(3900);
  CHECK(m.copies() == 0);
  m.Work(2500);
  CHECK(m.copies() == 1);
}

TEST_CASE("a built step is never late", "[dealing][copy]") {
  Late m;
  m.Say(1, {.slots = 1, .batch_ms = 100, .built = {0}});
  m.Work(20'000);
  CHECK_FALSE(m.AskedOf(2).contains(0));
  CHECK(m.state->asks().Find(0)->all().size() == 1);
}

TEST_CASE("the next step is asked of three members at most", "[dealing][copy][J1]") {
  Late m;
  m.sends = {2, 3, 4};
  m.Say(3, {.slots = 1, .batch_ms = 100});
  m.Say(4, {.slots = 1, .batch_ms = 100});
  m.Work(10'000);
  CHECK(m.state->asks().Find(0)->all().size() == 3);
  for (const auto& [step, asks] : m.state->asks().steps()) {
    CHECK(asks.all().size() <= (step == 0 ? 3 : 2));
  }
}

TEST_CASE("of other steps than the next one, one ask in 20 is a copy", "[dealing][copy]") {
  Late m(100, 40);
  m.Work(8000);
  const std::uint64_t made = m.state->asks().made();
  CHECK(made > 80);
  CHECK(m.copies() >= 3);
  CHECK(m.copies() <= made / 20 + 2);
}

TEST_CASE("no copy goes to a member that would be later still", "[dealing][copy]") {
  Late m;
  m.sends = {};
  m.Say(2, {.slots = 1, .batch_ms = 60'000});
  m.Work(3000);
  CHECK(m.copies() == 0);
}

/// The next step comes late, from the worker that was asked first. Returns how many copies there
/// were of it.
std::uint64_t LateRound(Late& m) {
  const std::uint64_t next = m.state->next();
  m.kept = next;
  m.Work(1500);
  const StepAsks asks = *m.state->asks().Find(next);
  m.Arrive(m.StreamTo(asks.all()[0].worker.n), next);
  while (m.state->holds(m.state->next())) m.TakeBatch();
  m.state->SetWaiting(true, m.now);
  m.Pass(10 * kMs);
  return asks.all().size() - 1;
}

TEST_CASE("if copies seldom win, batches are long by nature, and few are copied",
          "[dealing][copy]") {
  Late m;
  m.sends = {1, 2};
  std::uint64_t copies = 0;
  for (int i = 0; i < 30; ++i) copies += LateRound(m);
  REQUIRE(copies >= 7);  // half of the weight is gone after 7 copies that did not win
  const std::uint64_t before = m.state->asks().made();
  copies = 0;
  for (int i = 0; i < 20; ++i) copies += LateRound(m);
  CHECK(copies <= (m.state->asks().made() - before) / 80 + 1);
}

TEST_CASE("a worker that got stuck is not waited for, though copies seldom win",
          "[dealing][copy][I9]") {
  Late m;
  m.sends = {1, 2};
  for (int i = 0; i < 30; ++i) LateRound(m);
  const std::uint64_t next = m.state->next();
  m.kept = next;
  m.Work(6000);
  CHECK(m.state->asks().Find(next)->all().size() == 2);
}

TEST_CASE("a member whose steps are late is expected to be late with the next one, too",
          "[dealing][copy]") {
  Machine m(Long());
  m.Welcome();
  m.List({1, 2});
  m.Say(1, {.slots = 2, .batch_ms = 100});
  m.Say(2, {.slots = 2, .batch_ms = 100});
  const Steps of_second = m.AskedOf(2);
  m.PassAttached(2 * kSecond);
  CHECK(ToSeconds(m.state->workers().Find(Machine::IdOf(1))->stream.lag) > 1);
  for (const std::uint64_t step : of_second) m.Arrive(m.StreamTo(2), step);
  m.PassAttached(100 * kMs);
  CHECK(ToSeconds(m.state->workers().Find(Machine::IdOf(2))->stream.lag) < 1);
}

// --- rules 7 and 8 -----------------------------------------------------------------------------

TEST_CASE("a worker is asked for nothing before it has spoken", "[dealing][failing][J3]") {
  Machine m(Long());
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
  Machine m(Long());
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
  Machine m(Long());
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
  Machine m(Long());
  m.Welcome();
  const StreamId worker = m.Join(1, {.slots = 400, .batch_ms = 0.5});
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
  Machine m(Long());
  m.Welcome();
  m.List({1, 2, 3});
  for (std::uint64_t worker = 1; worker <= 3; ++worker) m.Say(worker, {.slots = 2});
  for (int tries = 0; tries < 2; ++tries) {
    const StepAsks* const asks = m.state->asks().Find(0);
    REQUIRE(asks != nullptr);
    m.Refuse(asks->all()[0].worker.n, 0, StatusCode::kAborted, "ValueError");
  }
  CHECK(m.state->asks().Find(0) == nullptr);
  m.PassAttached(kSecond);
  CHECK(m.state->asks().Find(0) == nullptr);
  CHECK(m.state->asks().steps().size() == 6);
}

TEST_CASE("a slow member is not given a later step that it has refused", "[dealing][refused]") {
  Machine m(Long());
  m.Welcome();
  m.List({1, 2});
  m.Say(1, {.slots = 2, .batch_ms = 100});
  m.Say(2, {.slots = 1, .batch_ms = 1050});
  REQUIRE(m.AskedOf(2) == Steps{10});
  m.Refuse(2, 10, StatusCode::kAborted);
  CHECK(m.AskedOf(2) == Steps{11});
}

// --- twins -------------------------------------------------------------------------------------

std::uint64_t RankOf(std::uint64_t step, std::uint64_t worker) {
  const std::string text = "0/" + std::to_string(step) + "/10." + std::to_string(worker);
  return Xxh3_64(std::as_bytes(std::span(text)));
}

TEST_CASE("a step that a worker has for a twin goes there, without a slot", "[dealing][twins]") {
  Machine m(Long());
  m.Welcome();
  m.List({1, 2});
  m.Say(2, {.slots = 1, .twins = {0, 1, 2, 3, 4}});
  CHECK(m.AskedOf(2).size() >= 5);
  CHECK(m.state->asks().Of(Machine::IdOf(2)).open <= 1);
  for (const std::uint64_t step : {0, 1, 2, 3, 4}) {
    CHECK(m.state->asks().Find(step)->all()[0].shared);
  }
}

TEST_CASE("a step that a twin asks for elsewhere is moved there, by one of the two",
          "[dealing][twins]") {
  // A session that asked worker 1, and a twin that asked worker 2; each hears of the other.
  std::uint64_t moved = 0;
  std::vector<Steps> where(2);
  for (const std::uint64_t own : {1, 2}) {
    const std::uint64_t other = 3 - own;
    Machine m({.epochs = 1});
    m.Welcome();
    m.List({1, 2});
    m.Say(own, {.slots = 10});
    REQUIRE(m.AskedOf(own).size() == 10);
    m.Say(other, {.slots = 10, .twins = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}});
    moved += m.state->stats(m.now).asks_moved;
    where[own - 1] = m.AskedOf(1);
    for (std::uint64_t step = 0; step < 10; ++step) {
      const std::uint64_t best = RankOf(step, 1) > RankOf(step, 2) ? 1 : 2;
      CHECK(m.AskedOf(best).contains(step));
    }
    // A second word changes nothing.
    m.Say(own, {.slots = 10, .twins = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}});
    CHECK(m.AskedOf(1) == where[own - 1]);
  }
  CHECK(moved == 10);
  CHECK(where[0] == where[1]);
}

TEST_CASE("a step that is begun is not moved to a twin's worker", "[dealing][twins]") {
  Machine m({.epochs = 1});
  m.Welcome();
  m.List({1, 2});
  m.Say(1, {.slots = 10});
  std::vector<std::uint64_t> all(10);
  std::iota(all.begin(), all.end(), 0);
  m.Say(1, {.slots = 10, .built = {0, 1, 2, 3, 4}, .building = {5, 6, 7, 8, 9}});
  m.Say(2, {.slots = 10, .twins = all});
  CHECK(m.state->stats(m.now).asks_moved == 0);
}

TEST_CASE("of members that are about as fast, twins take the same one for a step",
          "[dealing][twins]") {
  Machine m(Long());
  m.Welcome();
  m.List({1, 2, 3});
  m.Say(1, {.slots = 1, .batch_ms = 100, .twins = {1000}});
  m.Say(2, {.slots = 10, .batch_ms = 100});
  m.Say(3, {.slots = 10, .batch_ms = 100});
  std::uint64_t as_ranked = 0;
  for (const std::uint64_t worker : {2, 3}) {
    for (const std::uint64_t step : m.AskedOf(worker)) {
      as_ranked += RankOf(step, worker) > RankOf(step, 5 - worker) ? 1 : 0;
    }
  }
  CHECK(as_ranked >= 10);
}

TEST_CASE("a step takes a slot again if the twin takes its ask back", "[dealing][twins]") {
  Machine m(Long());
  m.Welcome();
  m.List({1});
  m.Say(1, {.slots = 2, .twins = {0, 1}});
  const std::uint64_t before = m.state->asks().Of(Machine::IdOf(1)).open;
  m.Say(1, {.slots = 2});
  CHECK(m.state->asks().Of(Machine::IdOf(1)).open >= before + 2);
}

}  // namespace
}  // namespace millrace::client
