#include <catch2/catch.hpp>

#include <algorithm>

#include "tests/unit/client/session/machine/machine.h"

namespace millrace::client {
namespace {

v1::Failing OnlyFailing(const v1::Report& report) {
  REQUIRE(report.failing_size() == 1);
  return report.failing(0);
}

TEST_CASE("a broken stream frees what its worker was asked for, and the worker is failing",
          "[session][failing]") {
  Machine m;
  m.Welcome();
  m.List({1, 2});
  m.Say(1, {.slots = 3});
  m.Say(2, {.slots = 10});
  REQUIRE(m.AskedOf(1).size() == 3);
  m.Break(1);
  CHECK(m.AskedOf(1).empty());
  CHECK(m.AskedOf(2).contains(0));
  const v1::Report report = m.PassAttached(300 * kMs);
  const v1::Failing failing = OnlyFailing(report);
  CHECK(WorkerId(FromProto(failing.worker())) == Machine::IdOf(1));
  CHECK(failing.reason() == "reset");
  CHECK(m.state->stats(m.now).moved_failed == 3);
  CHECK(m.PassAttached(kSecond).failing_size() == 0);
}

TEST_CASE("a worker that owes and is silent for 3 s has failed; one that owes nothing has not",
          "[session][failing]") {
  Machine m({.steps = {.examples = 20, .size = 5, .world_size = 2}, .epochs = 1});  // two steps
  m.Welcome();
  const auto [first, second] = m.JoinBoth();
  REQUIRE(m.AskedOf(1).size() == 2);
  m.TakeWants();
  m.Silence(1);
  m.Silence(2);
  m.PassAttached(2900 * kMs);
  CHECK(m.Take<CloseStream>().empty());
  m.Silence(2);
  m.PassAttached(200 * kMs);
  const auto closed = m.Take<CloseStream>();
  REQUIRE_FALSE(closed.empty());
  CHECK(closed[0].stream == first);
  CHECK(m.AskedOf(2).size() == 2);
  CHECK(m.StreamTo(2) == second);
}

TEST_CASE("a worker that was silent gets no credit at first, and more as its batches come",
          "[session][failing][credit]") {
  Machine m;
  m.Welcome();
  const StreamId silent = m.Join(1);
  m.TakeWants();
  m.Pass(10 * kMs);
  CHECK(m.Wants(silent)->credit_bytes() >= 8000);
  m.Silence(1);
  m.PassAttached(3100 * kMs);
  m.PassAttached(kSecond);
  const StreamId again = m.StreamTo(1);
  REQUIRE(again != 0);
  REQUIRE(again != silent);
  m.TakeWants();
  m.Say(1);
  m.Pass(10 * kMs);
  CHECK(m.Wants(again)->credit_bytes() == 0);
  m.Arrive(again, 0);
  m.Arrive(again, 1);
  m.PassAttached(100 * kMs);
  const std::uint64_t grown = m.Wants(again)->credit_bytes();
  CHECK(grown > 0);
  CHECK(grown <= 2000);
}

TEST_CASE("a frozen worker costs one silence, and is asked again once it has spoken",
          "[session][failing]") {
  Machine m;
  m.Welcome();
  m.List({1, 2});
  m.Say(1, {.slots = 2});
  m.Say(2, {.slots = 2});
  m.Silence(1);
  m.PassAttached(3500 * kMs);
  CHECK(m.AskedOf(1).empty());
  const std::uint64_t moved = m.state->stats(m.now).moved_failed;
  for (int i = 0; i < 30; ++i) m.PassAttached(kSecond);
  CHECK(m.AskedOf(1).empty());
  CHECK(m.state->stats(m.now).moved_failed == moved);
  m.Say(1, {.slots = 2});
  CHECK(m.AskedOf(1).size() == 1);
}

/// Brings a whole batch as a single fragment. The worker says that it is the stream's n-th.
Verdict ArriveNth(Machine& m, StreamId stream, std::uint64_t step, std::uint64_t n) {
  const Arrival arrival = ArrivalOf(m.state->steps(), step);
  v1::BatchFragment fragment;
  ToProto(arrival.at, fragment.mutable_at());
  fragment.set_total_bytes(arrival.bytes);
  fragment.set_batches_sent(n);
  m.state->OnBatchesFragment(stream, fragment, arrival.bytes, m.now);
  return m.state->OnBatchesArrival(stream, arrival, m.now);
}

void SayAlive(Machine& m, StreamId stream, std::uint64_t batches_sent) {
  v1::BatchFragment fragment;
  *fragment.mutable_alive() = m.AliveOf({.slots = 4});
  fragment.set_batches_sent(batches_sent);
  m.state->OnBatchesFragment(stream, fragment, 0, m.now);
}

TEST_CASE("a stream that has lost a batch is closed when the next batch comes",
          "[session][failing][lost]") {
  Machine m;
  m.Welcome();
  const StreamId stream = m.Join(1, {.slots = 4});
  CHECK(ArriveNth(m, stream, 0, 1) == Verdict::kTaken);
  CHECK(m.Take<CloseStream>().empty());
  CHECK(ArriveNth(m, stream, 2, 3) == Verdict::kUnwanted);
  const auto closed = m.Take<CloseStream>();
  REQUIRE(closed.size() == 1);
  CHECK(closed[0].stream == stream);
  CHECK(closed[0].why.message() == "of 3 batches that it has sent, 1 were lost on the way");
  CHECK(m.state->stats(m.now).moved_failed == 3);
}

TEST_CASE("a stream that has lost a batch is closed when the worker says that it lives",
          "[session][failing][lost]") {
  Machine m;
  m.Welcome();
  const StreamId stream = m.Join(1, {.slots = 4});
  SayAlive(m, stream, 0);
  ArriveNth(m, stream, 0, 1);
  SayAlive(m, stream, 1);
  CHECK(m.Take<CloseStream>().empty());
  SayAlive(m, stream, 2);
  CHECK(m.Take<CloseStream>().size() == 1);
}

TEST_CASE("a batch in fragments counts as received with its last fragment",
          "[session][failing][lost]") {
  Machine m;
  m.Welcome();
  const StreamId stream = m.Join(1, {.slots = 4});
  const Arrival arrival = ArrivalOf(m.state->steps(), 0);
  for (const std::uint64_t offset : {0, 600}) {
    v1::BatchFragment fragment;
    ToProto(arrival.at, fragment.mutable_at());
    fragment.set_total_bytes(arrival.bytes);
    fragment.set_offset(offset);
    fragment.set_batches_sent(1);
    m.state->OnBatchesFragment(stream, fragment, offset == 0 ? 600 : 400, m.now);
    CHECK(m.Take<CloseStream>().empty());
  }
  CHECK(m.state->OnBatchesArrival(stream, arrival, m.now) == Verdict::kTaken);
  SayAlive(m, stream, 1);
  CHECK(m.Take<CloseStream>().empty());
  SayAlive(m, stream, 2);
  CHECK(m.Take<CloseStream>().size() == 1);
}

TEST_CASE("a batch that came twice hides no later loss", "[session][failing][lost]") {
  Machine m;
  m.Welcome();
  const StreamId stream = m.Join(1, {.slots = 4});
  ArriveNth(m, stream, 0, 1);
  CHECK(ArriveNth(m, stream, 0, 1) == Verdict::kDuplicate);
  CHECK(m.Take<CloseStream>().empty());
  SayAlive(m, stream, 2);
  CHECK(m.Take<CloseStream>().size() == 1);
}

TEST_CASE("a worker that does not count its batches has lost none", "[session][failing][lost]") {
  Machine m;
  m.Welcome();
  const StreamId stream = m.Join(1, {.slots = 4});
  ArriveNth(m, stream, 0, 0);
  SayAlive(m, stream, 0);
  CHECK(ArriveNth(m, stream, 1, 0) == Verdict::kTaken);
  CHECK(m.Take<CloseStream>().empty());
}

TEST_CASE("a worker that takes no want list for 3 s has failed, though it owes nothing yet",
          "[session][failing]") {
  Machine m({.epochs = 1});
  m.Welcome();
  const StreamId worker = m.Join(1, {.slots = 2});
  m.TakeWants();
  REQUIRE(m.Take<SendWants>().empty());
  m.Arrive(worker, 0);
  m.Pass(10 * kMs);
  REQUIRE(m.Take<SendWants>().size() == 1);  // it is never written
  m.Silence(1);
  m.Pass(3500 * kMs);
  bool closed = false;
  for (const CloseStream& close : m.Take<CloseStream>()) closed = closed || close.stream == worker;
  CHECK(closed);
}

TEST_CASE("a worker that owes and says that it lives is not given up", "[session][failing]") {
  Machine m;
  m.Welcome();
  m.Join(1);
  m.PassAttached(20 * kSecond);
  CHECK(m.Take<CloseStream>().empty());
  CHECK(m.AskedOf(1).size() == 8);
}

TEST_CASE("a worker that is told and says for 3 s that it hears nothing is given up",
          "[session][failing]") {
  Machine m;
  m.Welcome();
  const StreamId worker = m.Join(1);
  m.TakeWants();
  m.Silence(1);
  const auto alive = [&](std::uint32_t wants_age_ms) {
    v1::BatchFragment fragment;
    *fragment.mutable_alive() = m.AliveOf({.wants_age_ms = wants_age_ms});
    m.state->OnBatchesFragment(worker, fragment, 0, m.now);
    return m.Take<CloseStream>().empty();
  };
  m.PassAttached(kSecond);
  CHECK(alive(60'000));  // it was told a second ago; the list may be on its way
  for (int i = 0; i < 10; ++i) {
    m.PassAttached(kSecond);
    CHECK(alive(2900));
  }
  // A message that was sent while this process stood still is old, and does not count.
  m.now = m.now + 60 * kSecond;
  CHECK(alive(4000));
  m.PassAttached(2900 * kMs);
  CHECK(alive(4000));
  m.PassAttached(200 * kMs);
  CHECK(!alive(3000));
  CHECK(m.AskedOf(1).empty());
  m.PassAttached(kSecond);
  REQUIRE(m.StreamTo(1) != worker);
  m.TakeWants();
  m.Say(1);
  m.Pass(10 * kMs);
  CHECK(m.Wants(m.StreamTo(1))->credit_bytes() == 0);  // as after a silence
  CHECK(m.logger->Has(LogLevel::kWarning, "no want list came to it for 3.0 s"));
}

TEST_CASE("a worker that is asked for nothing may hear nothing", "[session][failing]") {
  Machine m({.epochs = 1});
  m.Welcome();
  const auto [first, second] = m.JoinBoth({.slots = 10}, {.slots = 10, .wants_age_ms = 6000});
  REQUIRE(m.AskedOf(2).empty());
  for (std::uint64_t step = 0; step < 10; ++step) m.Arrive(first, step);
  m.PassAttached(6 * kSecond);
  CHECK(m.Take<CloseStream>().empty());
  CHECK(m.StreamTo(2) == second);
}

TEST_CASE("a process that stood still does not blame the others", "[session][failing]") {
  Machine m;
  m.Welcome();
  m.JoinBoth({.slots = 2}, {.slots = 2});
  m.PassAttached(kSecond);
  m.Silence(1);
  m.Silence(2);
  const std::uint64_t copies = m.state->stats(m.now).asks_copy;
  m.now = m.now + 60 * kSecond;  // no tick in between
  m.state->Tick(m.now);
  CHECK(m.Take<CloseStream>().empty());
  CHECK(m.state->stats(m.now).asks_copy == copies);
  m.Pass(3500 * kMs);
  CHECK(m.Take<CloseStream>().size() == 3);  // two workers and the dispatcher
}

TEST_CASE("a worker that failed long ago and is no member is forgotten", "[session][failing]") {
  Machine m;
  m.Welcome();
  m.JoinBoth();
  m.Break(1, Unavailable("killed"));
  m.List({2});
  CHECK(m.state->workers().all().size() == 2);
  m.PassAttached(WorkerBook::kForgetUnused + 2 * Supply::kForgetEvery);
  CHECK(m.state->workers().all().size() == 1);
  CHECK(m.state->workers().Find(Machine::IdOf(2)) != nullptr);
}

TEST_CASE("a batch over the limit can never come; one that was damaged on the way can",
          "[session][failing]") {
  Machine m;
  m.Welcome();
  const StreamId worker = m.Join(1);
  v1::BatchFragment fragment;
  ToProto(m.state->steps().At(0), fragment.mutable_at());
  fragment.set_total_bytes(m.state->batch_limit_bytes() + 1);
  m.state->OnBatchesFragment(worker, fragment, 100, m.now);
  const bool too_large = GENERATE(true, false);
  const Status why = too_large ? OutOfRange("a batch of 9 GiB") : DataLoss("another digest");
  m.words.clear();
  m.state->OnBatchesBad(worker, why, m.now);
  const v1::Failing failing = OnlyFailing(m.PassAttached(300 * kMs));
  CHECK(failing.code() == (too_large ? static_cast<std::uint32_t>(StatusCode::kOutOfRange) : 0));
  CHECK(failing.reason() == why.message());
}

}  // namespace
}  // namespace millrace::client
