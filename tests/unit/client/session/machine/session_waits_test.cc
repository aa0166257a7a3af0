#include <catch2/catch.hpp>

#include "tests/unit/client/session/machine/machine.h"

namespace millrace::client {
namespace {

TEST_CASE("every wait has its name, and its seconds go to it", "[session][wait]") {
  Machine m;
  m.Welcome();
  m.PassAttached(100 * kMs);
  m.state->SetWaiting(true, m.now);
  const auto cause = [&m] { return m.state->stats(m.now).now; };
  CHECK(cause() == WaitCause::kLease);
  m.PassAttached(500 * kMs);
  m.List({1});
  CHECK(cause() == WaitCause::kConnect);
  m.PassAttached(250 * kMs);
  m.Say(1, {.building = {1}});
  CHECK(cause() == WaitCause::kQueue);
  m.Say(1, {.building = {0}, .stage = "closure", .batches_before = 7});  // later ones
  CHECK(cause() == WaitCause::kBuild);
  CHECK(m.state->stats(m.now).now_stage == "closure");
  CHECK(m.state->stats(m.now).now_worker == "worker1:1");
  m.Say(1, {.built = {0}});
  CHECK(cause() == WaitCause::kTransfer);
  m.Say(1, {.building = {0}});
  v1::BatchFragment data;
  data.set_total_bytes(1000);
  ToProto(Position{0, 0}, data.mutable_at());
  m.state->OnBatchesFragment(m.StreamTo(1), data, 500, m.now);
  CHECK(cause() == WaitCause::kTransfer);
  m.state->OnBatchesArrival(m.StreamTo(1), ArrivalOf(m.state->steps(), 0), m.now);
  CHECK(cause() == WaitCause::kExpand);
  m.TakeBatch();
  m.state->SetWaiting(false, m.now);
  CHECK(cause() == WaitCause::kNone);
  m.PassAttached(kSecond);
  const SessionStats stats = m.state->stats(m.now);
  CHECK(stats.waited_seconds[2] == Approx(0.5));
  CHECK(stats.waited_seconds[3] == Approx(0.25));
  CHECK(stats.total_waited_seconds() == Approx(0.75));
}

TEST_CASE("a wait while every member has refused the batch is for one that may build it",
          "[session][wait]") {
  Machine m;
  m.Welcome();
  m.Join(1);
  m.state->SetWaiting(true, m.now);
  m.Refuse(1, 0, StatusCode::kAborted);
  CHECK(m.state->stats(m.now).now == WaitCause::kLease);
}

TEST_CASE("a wait beyond read_timeout ends the session with the wait's name", "[session][wait]") {
  Machine m({.read_timeout = 5 * kSecond});
  m.Welcome();
  m.PassAttached(10 * kSecond);  // the loop does not wait yet
  m.state->SetWaiting(true, m.now);
  m.PassAttached(5 * kSecond - kMs);
  CHECK(m.state->status().ok());
  CHECK(m.state->NextTick() == m.now + kMs);
  m.PassAttached(kMs);
  CHECK(m.state->status().code() == StatusCode::kDeadlineExceeded);
  CHECK(m.state->status().message() ==
        "no batch came for 5 s (read_timeout) at epoch 0, example 0: the loop waits for lease");
}

TEST_CASE("read_timeout counts anew for each batch, and names the worker", "[session][wait]") {
  Machine m({.read_timeout = 2 * kSecond});
  m.Welcome();
  m.state->SetWaiting(true, m.now);
  m.PassAttached(1500 * kMs);
  const StreamId worker = m.Join(1, {.building = {0}});
  m.Arrive(worker, 0);
  m.TakeBatch();
  m.PassAttached(1500 * kMs);
  CHECK(m.state->status().ok());
  m.Say(1, {.building = {1}});
  m.PassAttached(500 * kMs);
  CHECK_THAT(m.state->status().message(),
             Catch::Matchers::Contains("the loop waits for build (worker worker1:1)"));
}

TEST_CASE("time in which the process stood still does not count for read_timeout",
          "[session][wait]") {
  Machine m({.read_timeout = 5 * kSecond});
  m.Welcome();
  m.state->SetWaiting(true, m.now);
  m.now = m.now + 60 * kSecond;
  m.state->Tick(m.now);
  CHECK(m.state->status().ok());
}

TEST_CASE("a wait for a build that is in a plugin's process is of Python", "[session][wait]") {
  Machine m;
  m.Welcome();
  m.PassAttached(100 * kMs);
  m.state->SetWaiting(true, m.now);
  const auto cause = [&m] { return m.state->stats(m.now).now; };
  m.Join(1);
  for (const char* const stage : {"python", "tensors: python: mfcc", "python: mfcc"}) {
    m.Say(1, {.building = {0}, .stage = stage});
    CHECK(cause() == WaitCause::kPython);
    CHECK(m.state->stats(m.now).now_stage == stage);
    CHECK(m.state->stats(m.now).now_worker == "worker1:1");
  }
  for (const char* const stage : {"tensors: pythonic", "tensors: take", "batch", ""}) {
    m.Say(1, {.building = {0}, .stage = stage});
    CHECK(cause() == WaitCause::kBuild);
  }
}

TEST_CASE("a batch that took most of its time in Python is a sign of what the next one waits for",
          "[session][wait]") {
  Machine m;
  m.Welcome();
  m.PassAttached(100 * kMs);
  m.state->SetWaiting(true, m.now);
  const auto cause = [&m] { return m.state->stats(m.now).now; };
  const StreamId worker = m.Join(1, {.building = {0}, .stage = "batch", .batches_before = 7});
  CHECK(cause() == WaitCause::kBuild);
  for (std::uint64_t i = 0; i < 2; ++i) {
    v1::BatchFragment data;
    data.set_total_bytes(1000);
    data.set_mostly_python(i == 0);
    ToProto(Position{0, 10 * i}, data.mutable_at());
    m.state->OnBatchesFragment(worker, data, 1000, m.now);
    m.state->OnBatchesArrival(worker, ArrivalOf(m.state->steps(), i), m.now);
    m.TakeBatch();
    m.Say(1, {.building = {i + 1}});
    CHECK(cause() == (i == 0 ? WaitCause::kPython : WaitCause::kBuild));
  }
}

TEST_CASE("a report says how long the loop takes for a step, without its waits",
          "[session][wait]") {
  Machine m;
  m.Welcome();
  const StreamId worker = m.Join(1);
  for (std::uint64_t step = 0; step < 4; ++step) {
    m.state->SetWaiting(true, m.now);
    m.PassAttached(400 * kMs);
    m.Arrive(worker, step);
    m.state->SetWaiting(false, m.now);
    m.TakeBatch();
    m.PassAttached(50 * kMs);
    m.state->OnLoopAsks(m.now);
  }
  CHECK(m.PassAttached(kSecond).step_ms() == Approx(50));
}

TEST_CASE("counters are of what the loop took, dropped examples by reason", "[session][wait]") {
  Machine m;
  m.Welcome();
  const StreamId worker = m.Join(1);
  Arrival arrival = ArrivalOf(m.state->steps(), 0);
  arrival.counts.examples = 3;
  arrival.counts.dropped = {DropReason::kTooLarge, DropReason::kExcluded};
  arrival.counts.tokens = 4000;
  arrival.counts.lost_pieces = {{DropReason::kExcluded, 5}, {DropReason{17}, 2}};
  m.Arrive(worker, arrival);
  CHECK(m.state->stats(m.now).batches == 0);
  CHECK(m.state->stats(m.now).tokens == 0);
  m.TakeBatch();
  const v1::Counters counters = m.PassAttached(kSecond).counters();
  CHECK(counters.batches() == 1);
  CHECK(counters.examples() == 3);
  CHECK(counters.bytes() == 1000);
  REQUIRE(counters.dropped_size() == 2);
  CHECK(counters.dropped(0).reason() == v1::TOO_LARGE);
  CHECK(counters.tokens() == 4000);
  REQUIRE(counters.pieces_lost_size() == 2);
  CHECK(counters.pieces_lost(0).reason() == v1::EXCLUDED);
  CHECK(counters.pieces_lost(0).pieces() == 5);
  CHECK(static_cast<int>(counters.pieces_lost(1).reason()) == 17);
  CHECK(m.state->stats(m.now).pieces_lost[17] == 2);
}

TEST_CASE("a reason that only newer workers know is counted by its number", "[session][wait]") {
  Machine m;
  m.Welcome();
  const StreamId worker = m.Join(1);
  Arrival arrival = ArrivalOf(m.state->steps(), 0);
  arrival.counts.examples = 4;
  arrival.counts.dropped = {DropReason{17}};
  CHECK(m.Arrive(worker, arrival) == Verdict::kTaken);
  m.TakeBatch();
  CHECK(m.state->stats(m.now).dropped[17] == 1);
  const v1::Counters counters = m.PassAttached(kSecond).counters();
  REQUIRE(counters.dropped_size() == 1);
  CHECK(static_cast<int>(counters.dropped(0).reason()) == 17);
  CHECK(counters.dropped(0).examples() == 1);
}

}  // namespace
}  // namespace millrace::client
