// Tests of credit and want lists.
#include <catch2/catch.hpp>

#include "tests/unit/client/session/machine/machine.h"

namespace millrace::client {
namespace {

using StepList = std::vector<std::uint64_t>;

TEST_CASE("a worker gets one stream, and a want list with all that is asked of it",
          "[session][wants]") {
  Machine m;
  m.Welcome();
  const StreamId worker = m.Join(1, {.slots = 3});
  CHECK(m.Take<OpenBatches>().size() == 1);
  m.Wants(worker);
  m.Pass(5 * kMs);
  const auto wants = m.Wants(worker);
  REQUIRE(wants);
  CHECK(wants->fingerprint() == kPlan.ToString());
  CHECK(SessionId(FromProto(wants->session())) == SessionId({10, 1}));
  CHECK(StepsOf(m.state->steps(), *wants) == StepList{0, 1, 2});
  REQUIRE(wants->runs_size() == 1);
  CHECK(wants->runs(0).first_example() == 5);
  CHECK(wants->runs(0).examples() == 5);
  CHECK(wants->credit_bytes() > 0);
}

TEST_CASE("a report says what is granted to all workers together", "[session][wants]") {
  Machine m;
  m.Welcome();
  const auto [first, second] = m.JoinBoth({.slots = 3}, {.slots = 3});
  m.Wants(first);
  m.Wants(second);
  m.Pass(5 * kMs);
  const std::uint64_t credit = m.Wants(first)->credit_bytes() + m.Wants(second)->credit_bytes();
  CHECK(credit > 0);
  const v1::Report report = m.PassAttached(kSecond);
  CHECK(report.grants().window() == m.state->window());
  CHECK(report.grants().credit_bytes() == credit);
  CHECK(report.asked() == 6);
}

TEST_CASE("want lists name the job and its priority, so that workers can divide their time",
          "[session][wants]") {
  Machine m({.priority = 7});
  m.Welcome();
  const StreamId worker = m.Join(1);
  const auto first = m.Wants(worker);
  REQUIRE(first);
  CHECK(first->job() == "j");
  CHECK(first->priority() == 7);
  m.Arrive(worker, 0);
  m.PassAttached(kSecond);
  const auto later = m.Wants(worker);
  REQUIRE(later);
  CHECK(later->job() == "j");
  CHECK(later->priority() == 7);
}

TEST_CASE("a worker that owes something is told again every second, one that owes nothing is not",
          "[session][wants]") {
  Machine m({.steps = {.examples = 20, .size = 5, .world_size = 2}, .epochs = 1});  // two steps
  m.Welcome();
  const StreamId worker = m.Join(1);
  m.PassAttached(500 * kMs);  // first it is asked for nothing, and then, that steps find slots
  m.TakeWants();
  m.PassAttached(kSecond);
  const auto first = m.Wants(worker);
  REQUIRE(first);
  REQUIRE_FALSE(first->asks());
  REQUIRE(first->runs_size() == 1);
  m.PassAttached(600 * kMs);
  CHECK(!m.Wants(worker));
  m.PassAttached(500 * kMs);
  const auto again = m.Wants(worker);
  REQUIRE(again);
  CHECK(again->SerializeAsString() == first->SerializeAsString());
  m.Arrive(worker, 0);
  m.Arrive(worker, 1);
  m.PassAttached(kSecond);
  m.Wants(worker);  // nothing is asked any more
  m.PassAttached(2 * kSecond);
  CHECK(!m.Wants(worker));
}

TEST_CASE("credit goes to what is needed first, for whole batches, and to no step but the next one",
          "[session][wants][I5]") {
  Machine m({.prefetch_bytes = 2'500});
  m.Welcome();
  // The first batch shows how large one is. It came as the next one, and took no credit.
  m.List({1, 2, 3});
  m.Say(1, {.slots = 1});
  m.Arrive(m.StreamTo(1), 0);
  m.TakeBatch();
  m.Break(1);
  m.Say(2, {.slots = 2});
  m.Say(3, {.slots = 2});
  REQUIRE(m.AskedOf(2) == std::set<std::uint64_t>{1, 2});
  REQUIRE(m.AskedOf(3) == std::set<std::uint64_t>{3, 4});
  m.Pass(60 * kMs);
  const auto credit = [&m](std::uint64_t worker) {
    return m.state->workers().Find(Machine::IdOf(worker))->credit_left();
  };
  CHECK(credit(2) == 1000);  // for step 2
  CHECK(credit(3) == 1000);  // for step 3; 500 bytes are left, which no batch fits
}

TEST_CASE("a trainer with memory for two batches still uses every worker", "[session][wants]") {
  Machine m({.steps = {.examples = 100'000, .size = 5, .world_size = 2}, .prefetch_bytes = 2'000});
  m.Welcome();
  m.List({1, 2, 3, 4, 5, 6});
  for (std::uint64_t worker = 1; worker <= 6; ++worker) {
    m.Say(worker, {.slots = 2, .batch_ms = 800});
  }
  m.Pass(100 * kMs);
  for (std::uint64_t worker = 1; worker <= 6; ++worker) CHECK(m.AskedOf(worker).size() == 2);
  CHECK(m.state->window() <= 3);
}

TEST_CASE("a list says from which step on batches may be built and not sent", "[session][wants]") {
  Machine m({.steps = {.examples = 100'000, .size = 5, .world_size = 2}, .prefetch_bytes = 4'000});
  m.Welcome();
  const StreamId worker = m.Join(1, {.slots = 10});
  m.Wants(worker);
  m.Pass(60 * kMs);
  auto wants = m.Wants(worker);
  REQUIRE(wants);
  CHECK(StepsOf(m.state->steps(), *wants).size() == 10);
  CHECK(FromProto(wants->until()) == m.state->steps().At(5));  // 4,000 bytes, and the next one
  // Once the loop has taken some, the worker may send a batch that waits for that.
  m.Say(1, {.slots = 10, .built = {0, 1, 2, 3, 4, 5}});
  m.Pass(60 * kMs);
  m.TakeWants();
  m.Arrive(worker, 0);
  m.TakeBatch();
  m.Wants(worker);
  m.Pass(5 * kMs);
  wants = m.Wants(worker);
  REQUIRE(wants);
  CHECK(FromProto(wants->until()) == m.state->steps().At(6));
}

TEST_CASE("the next batch waits for no credit, however much is held", "[session][wants]") {
  Machine m({.prefetch_bytes = 10});  // less than any batch
  m.Welcome();
  const StreamId worker = m.Join(1, {.slots = 4});
  m.Wants(worker);
  for (std::uint64_t step = 0; step < 4; ++step) {
    m.Pass(5 * kMs);
    const auto wants = m.Wants(worker);
    REQUIRE(wants);
    CHECK(FromProto(wants->next()) == m.state->steps().At(step));
    CHECK(FromProto(wants->until()) == m.state->steps().At(step + 1));
    CHECK(wants->credit_bytes() <= 10);
    REQUIRE(m.Arrive(worker, step) == Verdict::kTaken);
    m.TakeBatch();
  }
}

TEST_CASE("a worker is told within 5 ms that its step is the next one", "[session][wants]") {
  Machine m;
  m.Welcome();
  const auto [first, second] = m.JoinBoth({.slots = 1}, {.slots = 1});
  REQUIRE(m.AskedOf(1) == std::set<std::uint64_t>{0});
  REQUIRE(m.AskedOf(2) == std::set<std::uint64_t>{1});
  m.PassAttached(kSecond);
  m.TakeWants();
  m.Arrive(first, 0);
  m.TakeBatch();
  m.Pass(5 * kMs);
  const auto wants = m.Wants(second);
  REQUIRE(wants);
  CHECK(FromProto(wants->next()) == m.state->steps().At(1));
}

TEST_CASE("credit never decreases, and covers no more than the free bytes",
          "[session][wants][I5]") {
  Machine m;
  m.Welcome();
  const StreamId worker = m.Join(1, {.slots = 10});
  std::uint64_t credit = 0;
  std::uint64_t used = 0;
  for (std::uint64_t i = 0; i < 10; ++i) {
    m.Pass(60 * kMs);
    if (const auto wants = m.Wants(worker)) {
      CHECK(wants->credit_bytes() >= credit);
      credit = wants->credit_bytes();
      CHECK(credit - used + m.state->held_bytes() <= m.options.prefetch_bytes);
    }
    const std::uint64_t bytes = 4000 + 1000 * i;
    if (i > 0) used += bytes;  // the first batch is `next` and needs no credit
    m.Arrive(worker, ArrivalOf(m.state->steps(), i, bytes), used);
  }
  CHECK(credit > 0);
}

TEST_CASE("an estimate beyond all measure gives no credit beyond memory", "[session][wants]") {
  Machine m({.max_batch_bytes = ~std::uint64_t{0}});
  m.Welcome();
  const StreamId worker = m.Join(1);
  m.Wants(worker);
  m.Pass(5 * kMs);
  const auto wants = m.Wants(worker);
  REQUIRE(wants);
  CHECK(m.state->window() == 1);
  CHECK(wants->credit_bytes() <= m.options.prefetch_bytes);
}

TEST_CASE("want lists follow each other only when the last one is written", "[session][wants]") {
  Machine m;
  m.Welcome();
  const StreamId worker = m.Join(1);
  REQUIRE(m.Take<SendWants>().size() == 1);
  for (std::uint64_t i = 0; i < 8; ++i) {
    m.Arrive(worker, i);
    m.Pass(60 * kMs);
  }
  CHECK(m.Take<SendWants>().empty());
  m.state->OnBatchesWritten(worker, m.now);
  CHECK(m.Take<SendWants>().size() == 1);
}

TEST_CASE("want lists to one worker are 5 ms apart at least", "[session][wants]") {
  Machine m({.steps = {.examples = 100'000, .size = 5, .world_size = 2}});
  m.Welcome();
  const StreamId worker = m.Join(1, {.slots = 4});
  std::vector<Time> told;
  for (std::uint64_t step = 0; step < 100; ++step) {
    m.Arrive(worker, step);
    m.TakeBatch();
    for (int i = 0; i < 2; ++i) {
      if (m.Wants(worker)) told.push_back(m.now);
      m.Pass(std::chrono::microseconds(500));
    }
  }
  REQUIRE(told.size() >= 10);
  for (std::size_t i = 1; i < told.size(); ++i) CHECK(told[i] - told[i - 1] >= 5 * kMs);
}

TEST_CASE("a list has at most 256 runs, those that are needed first", "[session][wants]") {
  // Each epoch is one step, so that no run has two.
  Machine m({.steps = {.examples = 10, .size = 5, .world_size = 2}});
  m.Welcome();
  const StreamId worker = m.Join(1, {.slots = 4096, .batch_ms = 0.01, .threads = 64});
  m.Wants(worker);
  m.Pass(5 * kMs);
  const auto wants = m.Wants(worker);
  REQUIRE(wants);
  CHECK(wants->runs_size() > 200);
  CHECK(wants->runs_size() <= 256);
  StepList expected;
  for (std::uint64_t step = 0; step < static_cast<std::uint64_t>(wants->runs_size()); ++step) {
    expected.push_back(step);
  }
  CHECK(StepsOf(m.state->steps(), *wants) == expected);
}

TEST_CASE("runs that fall apart make no list longer than 256 runs", "[session][wants]") {
  Machine m(
      {.steps = {.examples = 100'000, .size = 5, .world_size = 2}, .prefetch_bytes = 10'000'000});
  m.Welcome();
  const StreamId worker = m.Join(1, {.slots = 1024, .batch_ms = 0.01, .threads = 64});
  REQUIRE(m.AskedOf(1).size() == 1024);
  m.Arrive(worker, 0);
  for (std::uint64_t step = 2; step < 1024; step += 2) m.Arrive(worker, step);
  m.TakeWants();
  m.Pass(60 * kMs);
  const auto wants = m.Wants(worker);
  REQUIRE(wants);
  CHECK(wants->runs_size() == 256);
  CHECK(StepsOf(m.state->steps(), *wants).front() == 1);
}

TEST_CASE(
    "batches that the loop keeps narrow the window down to the next one, and that wait is named",
    "[session][wants]") {
  Machine m;
  m.Welcome();
  const StreamId worker = m.Join(1);
  m.state->SetLoopHolds(2, m.now);
  CHECK(m.state->window() == 8);
  m.state->SetLoopHolds(5, m.now);
  CHECK(m.state->window() == 5);
  m.state->SetLoopHolds(100, m.now);
  CHECK(m.state->window() == 1);
  m.state->SetWaiting(true, m.now);
  CHECK(m.state->stats(m.now).now == WaitCause::kSlot);
  CHECK(m.Arrive(worker, 0) == Verdict::kTaken);
}

TEST_CASE("others are told that a step finds no slot, and that it does again", "[session][wants]") {
  Machine m({.epochs = 1});  // 10 steps
  m.Welcome();
  const StreamId worker = m.Join(1, {.slots = 4});
  m.Wants(worker);
  m.Pass(60 * kMs);
  auto wants = m.Wants(worker);
  REQUIRE(wants);
  CHECK(wants->asks());
  CHECK(m.PassAttached(kSecond).asks());
  for (std::uint64_t step = 0; step < 6; ++step) m.Arrive(worker, step);
  const v1::Report report = m.PassAttached(kSecond);
  CHECK_FALSE(report.asks());
  wants = m.Wants(worker);
  REQUIRE(wants);
  CHECK_FALSE(wants->asks());
}

}  // namespace
}  // namespace millrace::client
