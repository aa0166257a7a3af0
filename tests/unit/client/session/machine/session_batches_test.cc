#include <catch2/catch.hpp>

#include "tests/unit/client/session/machine/machine.h"

namespace millrace::client {
namespace {

TEST_CASE("a batch that is not what its lease says is dropped, and its worker has failed",
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
    const StreamId worker = m.GiveOne(1, 0, 3, 1);
    Arrival arrival = ArrivalOf(m.state->steps(), 0, {10, 1});
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
  m.Give({m.LeaseOf(1, 0, 3, 1), m.LeaseOf(2, 0, 3, 2, true)});
  const auto opened = m.Take<OpenBatches>();
  CHECK(m.Arrive(opened[0].stream, 0, 1) == Verdict::kTaken);
  CHECK(m.Arrive(opened[1].stream, 0, 2) == Verdict::kDuplicate);
  m.TakeBatch();
  CHECK(m.Arrive(opened[1].stream, 0, 2) == Verdict::kDuplicate);
  CHECK(m.state->held_batches() == 0);
  CHECK(m.state->stats(m.now).duplicates == 2);
  CHECK(m.state->stats(m.now).duplicate_mismatches == 0);
}

TEST_CASE("copies that differ are an alarm that names both workers", "[session][batch][I2]") {
  for (const bool taken : {false, true}) {
    Machine m;
    m.Welcome();
    m.Give({m.LeaseOf(1, 0, 3, 1), m.LeaseOf(2, 0, 3, 2, true)});
    const auto opened = m.Take<OpenBatches>();
    m.Arrive(opened[0].stream, 0, 1);
    if (taken) m.TakeBatch();
    Arrival other = ArrivalOf(m.state->steps(), 0, {10, 2});
    other.digest.low ^= 1;
    CHECK(m.Arrive(opened[1].stream, other) == Verdict::kDuplicate);
    CHECK(m.logger->Has(LogLevel::kError, "worker1:1"));
    CHECK(m.logger->Has(LogLevel::kError, "worker2:1"));
    CHECK(m.state->stats(m.now).duplicate_mismatches == 1);
    CHECK(m.PassAttached(kSecond).counters().duplicate_mismatches() == 1);
  }
}

TEST_CASE("parts of batches that the session does not look for cost no memory",
          "[session][batch]") {
  Machine m;
  m.Welcome();
  const StreamId worker = m.GiveOne(1, 0, 3, 1);
  v1::BatchPart part;
  part.set_total_bytes(1000);
  ToProto(Position{900, 0}, part.mutable_at());
  CHECK_FALSE(m.state->OnBatchesPart(worker, part, 500, m.now));
  ToProto(Position{0, 3}, part.mutable_at());
  CHECK_FALSE(m.state->OnBatchesPart(worker, part, 500, m.now));
  ToProto(Position{0, 0}, part.mutable_at());
  CHECK(m.state->OnBatchesPart(worker, part, 500, m.now));
}

TEST_CASE("what was granted before the window shrank is taken when it comes", "[session][batch]") {
  Machine::Options options;
  options.steps = {.examples = 100'000, .size = 5, .world_size = 2};
  options.prefetch_bytes = 1'000'000;
  Machine m(options);
  m.Welcome();
  std::vector<v1::Lease> leases;
  for (std::uint32_t i = 0; i < 16; ++i) leases.push_back(m.LeaseOf(1 + i, 64 * i, 64, 1));
  m.Give(leases);
  const StreamId worker = m.TakeLast<OpenBatches>()->stream;
  const auto arrive = [&](std::uint64_t step, std::uint64_t bytes) {
    v1::BatchPart part;
    const Arrival arrival = ArrivalOf(m.state->steps(), step, {10, 1 + step / 64}, bytes);
    ToProto(arrival.at, part.mutable_at());
    part.set_total_bytes(bytes);
    return m.state->OnBatchesPart(worker, part, bytes, m.now) &&
           m.state->OnBatchesArrival(worker, arrival, m.now) == Verdict::kTaken;
  };
  for (std::uint64_t step = 0; step < 600; ++step) REQUIRE(arrive(step, 1000));
  const std::uint64_t before = m.state->window();
  REQUIRE(arrive(600, 100'000));  // a large one: the window shrinks while batches are under way
  REQUIRE(m.state->window() + 64 < 800);
  REQUIRE(before >= 800);
  for (std::uint64_t step = 601; step < 800; ++step) CHECK(arrive(step, 1000));
}

TEST_CASE("whether a batch is wanted is decided at its first part", "[session][batch]") {
  Machine m;
  m.Welcome();
  const StreamId worker = m.GiveOne(1, 0, 10, 1);
  v1::BatchPart part;
  ToProto(m.state->steps().At(0), part.mutable_at());
  part.set_total_bytes(2000);
  CHECK(m.state->OnBatchesPart(worker, part, 1000, m.now));
  m.state->OnBatchesPart(worker, {}, 0, m.now);
  part.set_offset(1000);
  CHECK(m.state->OnBatchesPart(worker, part, 1000, m.now));
  ToProto(m.state->steps().At(5000), part.mutable_at());  // far from any leased step
  part.set_offset(0);
  CHECK_FALSE(m.state->OnBatchesPart(worker, part, 1000, m.now));
  part.set_offset(1000);
  CHECK_FALSE(m.state->OnBatchesPart(worker, part, 1000, m.now));
}

TEST_CASE("what comes from a closed stream is ignored", "[session][batch]") {
  Machine m;
  m.Welcome();
  const StreamId worker = m.GiveOne(1, 0, 3, 1);
  m.state->OnBatchesClosed(worker, Unavailable("reset"), m.now);
  CHECK(m.Arrive(worker, 0, 1) == Verdict::kUnwanted);
  CHECK(m.state->held_batches() == 0);
}

}  // namespace
}  // namespace millrace::client
