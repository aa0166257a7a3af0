#include <catch2/catch.hpp>

#include "tests/unit/client/session/machine/machine.h"

namespace millrace::client {
namespace {

TEST_CASE("a batch that is not that of its step is dropped, and its worker has failed",
          "[session][batch]") {
  const auto spoil = [](Arrival& a, int what) {
    if (what == 0) a.fingerprint = kOtherPlan;
    if (what == 1) a.epoch += 1;
    if (what == 2) a.first_example += 1;
    if (what == 3) a.planned_examples -= 1;
    if (what == 4) a.at.example += 1;
  };
  for (int what = 0; what < 5; ++what) {
    Machine m;
    m.Welcome();
    const StreamId worker = m.Join(1);
    Arrival arrival = ArrivalOf(m.state->steps(), 0);
    spoil(arrival, what);
    CHECK(m.Arrive(worker, arrival) == Verdict::kWrong);
    CHECK(m.state->held_batches() == 0);
    CHECK(m.Take<CloseStream>().size() == 1);
    CHECK(m.logger->Has(LogLevel::kWarning, "DATA_LOSS"));
    CHECK(m.state->status().ok());
  }
}

TEST_CASE("a second copy of a batch is dropped, held or taken", "[session][batch][I1]") {
  Machine m;
  m.Welcome();
  const auto [first, second] = m.JoinBoth();
  CHECK(m.Arrive(first, 0) == Verdict::kTaken);
  CHECK(m.Arrive(second, 0) == Verdict::kDuplicate);
  m.TakeBatch();
  CHECK(m.Arrive(second, 0) == Verdict::kDuplicate);
  CHECK(m.state->held_batches() == 0);
  CHECK(m.state->stats(m.now).duplicates == 2);
  CHECK(m.state->stats(m.now).duplicate_mismatches == 0);
}

TEST_CASE("copies that differ are an alarm that names both workers", "[session][batch][I2]") {
  for (const bool taken : {false, true}) {
    Machine m;
    m.Welcome();
    const auto [first, second] = m.JoinBoth();
    m.Arrive(first, 0);
    if (taken) m.TakeBatch();
    Arrival other = ArrivalOf(m.state->steps(), 0);
    other.digest.low ^= 1;
    CHECK(m.Arrive(second, other) == Verdict::kDuplicate);
    CHECK(m.logger->Has(LogLevel::kError, "worker1:1"));
    CHECK(m.logger->Has(LogLevel::kError, "worker2:1"));
    CHECK(m.state->stats(m.now).duplicate_mismatches == 1);
    CHECK(m.PassAttached(kSecond).counters().duplicate_mismatches() == 1);
  }
}

TEST_CASE("a batch that comes though its worker was not asked for it is kept", "[session][batch]") {
  Machine m;
  m.Welcome();
  const StreamId second = m.JoinBoth({.slots = 4}, {.slots = 1}).second;
  REQUIRE(m.AskedOf(1).contains(0));
  // The worker was asked before, and the ask was taken back when the batch was on its way.
  CHECK(m.Arrive(second, 0) == Verdict::kTaken);
  CHECK_FALSE(m.AskedOf(1).contains(0));
  CHECK_FALSE(m.state->answered());
}

TEST_CASE("fragments of batches that the session does not look for cost no memory",
          "[session][batch]") {
  Machine m;
  m.Welcome();
  const StreamId worker = m.Join(1);
  v1::BatchFragment fragment;
  fragment.set_total_bytes(1000);
  ToProto(Position{900, 0}, fragment.mutable_at());
  CHECK_FALSE(m.state->OnBatchesFragment(worker, fragment, 500, m.now));
  ToProto(Position{0, 3}, fragment.mutable_at());
  CHECK_FALSE(m.state->OnBatchesFragment(worker, fragment, 500, m.now));
  ToProto(Position{0, 0}, fragment.mutable_at());
  CHECK(m.state->OnBatchesFragment(worker, fragment, 500, m.now));
}

TEST_CASE("what was asked for before the window shrank is taken when it comes",
          "[session][batch]") {
  Machine m(
      {.steps = {.examples = 100'000, .size = 5, .world_size = 2}, .prefetch_bytes = 1'000'000});
  m.Welcome();
  const StreamId worker = m.Join(1, {.slots = 1000, .threads = 64});
  REQUIRE(m.AskedOf(1).size() > 900);
  for (std::uint64_t step = 0; step < 600; ++step) {
    REQUIRE(m.Arrive(worker, step) == Verdict::kTaken);
  }
  const std::uint64_t before = m.state->window();
  REQUIRE(m.Arrive(worker, 600, 100'000) == Verdict::kTaken);  // a large one
  REQUIRE(m.state->window() + 64 < 800);
  REQUIRE(before >= 800);
  for (std::uint64_t step = 601; step < 800; ++step) {
    CHECK(m.Arrive(worker, step) == Verdict::kTaken);
  }
}

TEST_CASE("whether a batch is wanted is decided at its first fragment", "[session][batch]") {
  Machine m;
  m.Welcome();
  const StreamId worker = m.Join(1);
  v1::BatchFragment fragment;
  ToProto(m.state->steps().At(0), fragment.mutable_at());
  fragment.set_total_bytes(2000);
  CHECK(m.state->OnBatchesFragment(worker, fragment, 1000, m.now));
  m.state->OnBatchesFragment(worker, {}, 0, m.now);
  fragment.set_offset(1000);
  CHECK(m.state->OnBatchesFragment(worker, fragment, 1000, m.now));
  ToProto(m.state->steps().At(5000), fragment.mutable_at());  // far from any step that is asked for
  fragment.set_offset(0);
  CHECK_FALSE(m.state->OnBatchesFragment(worker, fragment, 1000, m.now));
  fragment.set_offset(1000);
  CHECK_FALSE(m.state->OnBatchesFragment(worker, fragment, 1000, m.now));
}

TEST_CASE("what comes from a closed stream is ignored", "[session][batch]") {
  Machine m;
  m.Welcome();
  const StreamId worker = m.Join(1);
  m.state->OnBatchesClosed(worker, Unavailable("reset"), m.now);
  CHECK(m.Arrive(worker, 0) == Verdict::kUnwanted);
  CHECK(m.state->held_batches() == 0);
}

}  // namespace
}  // namespace millrace::client
