// Tests of steps that are late, and of copies of them (rule 6 of dealing).
#include <catch2/catch.hpp>

#include "tests/unit/client/session/machine/machine.h"

namespace millrace::client {
namespace {

using Steps = std::set<std::uint64_t>;

/// A session whose worker 1 lives and sends nothing. Those that `send` bring a batch at a time.
class Late : public Machine {
 public:
  explicit Late(double batch_ms = 100, std::uint32_t slots = 1)
      : Machine(LongEpoch()), batch_ms_(static_cast<int>(batch_ms)) {
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
  m.Arrive(m.StreamTo(asks.all()[0].worker.number().n), next);
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
  Machine m(LongEpoch());
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

}  // namespace
}  // namespace millrace::client
