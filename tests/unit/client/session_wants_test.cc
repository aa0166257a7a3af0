#include <catch2/catch.hpp>

#include "tests/unit/client/machine.h"

namespace millrace::client {
namespace {

v1::Failing OnlyFailing(const v1::Report& report) {
  REQUIRE(report.failing_size() == 1);
  return report.failing(0);
}

// --- room and credit --------------------------------------------------------------------------

TEST_CASE("a worker gets one stream, and one want list with all its leases", "[session][wants]") {
  Machine m;
  m.Welcome();
  m.Give({m.LeaseOf(1, 0, 3, 1), m.LeaseOf(2, 3, 3, 1)});
  const auto opened = m.Take<OpenBatches>();
  REQUIRE(opened.size() == 1);
  const auto wants = m.Wants(opened[0].stream);
  REQUIRE(wants);
  CHECK(wants->fingerprint() == kPlan.ToString());
  CHECK(FromProto(wants->session()) == Number{10, 1});
  REQUIRE(wants->wants_size() == 2);
  CHECK(wants->wants(0).room() == 3);
  CHECK(wants->credit_bytes() > 0);
}

TEST_CASE("room goes to what is needed first, over all leases and workers, within the window",
          "[session][wants]") {
  Machine m;  // the first window is 8
  m.Welcome();
  m.Give({m.LeaseOf(1, 6, 4, 1), m.LeaseOf(2, 0, 6, 2)});
  const auto opened = m.Take<OpenBatches>();
  REQUIRE(opened.size() == 2);
  const auto first = m.Wants(opened[0].stream);
  const auto second = m.Wants(opened[1].stream);
  REQUIRE((first && second));
  CHECK(first->wants(0).room() == 6);
  CHECK(second->wants(0).room() == 2);
}

TEST_CASE("places of the window that no lease covers yet are kept free", "[session][wants]") {
  Machine m;
  m.Welcome();
  const StreamId worker = m.GiveOne(1, 5, 5, 1);
  const auto wants = m.Wants(worker);
  REQUIRE(wants);
  CHECK(wants->wants(0).room() == 3);  // steps 5 to 7; 0 to 4 are for other leases
}

TEST_CASE("a lease without room is still wanted, so that it is not cancelled", "[session][wants]") {
  Machine m;
  m.Welcome();
  m.Give({m.LeaseOf(1, 0, 8, 1), m.LeaseOf(2, 8, 2, 1)});
  const auto wants = m.Wants(m.Take<OpenBatches>().at(0).stream);
  REQUIRE(wants->wants_size() == 2);
  CHECK(wants->wants(1).room() == 0);
}

TEST_CASE("what is held takes room until the loop takes it", "[session][wants][I5]") {
  Machine m;
  m.Welcome();
  const StreamId worker = m.GiveOne(1, 0, 10, 1);
  m.Wants(worker);
  for (std::uint64_t i = 0; i < 4; ++i) m.Arrive(worker, i, 1, 12'000);
  m.Pass(60 * kMs);
  auto wants = m.Wants(worker);
  REQUIRE(wants);
  CHECK(m.state->window() == 9);  // 100,000 bytes and the next one
  CHECK(TotalRoom(*wants) == 5);
  m.TakeBatch();
  m.Pass(60 * kMs);
  wants = m.Wants(worker);
  REQUIRE(wants);
  CHECK(TotalRoom(*wants) == 6);
  CHECK(FromProto(wants->next()) == Position{0, 10});
}

TEST_CASE("the next batch always has room, however much is held", "[session][wants]") {
  Machine::Options options;
  options.prefetch_bytes = 10;  // less than any batch
  Machine m(options);
  m.Welcome();
  m.Give({m.LeaseOf(1, 0, 2, 1), m.LeaseOf(2, 2, 4, 2)});
  const auto opened = m.Take<OpenBatches>();
  const auto first = m.Wants(opened[0].stream);
  REQUIRE(first);
  CHECK(TotalRoom(*first) == 1);
  const auto second = m.Wants(opened[1].stream);
  REQUIRE(second);
  CHECK(TotalRoom(*second) == 0);
  CHECK(second->credit_bytes() == 0);
}

TEST_CASE("credit never decreases, and covers no more than the free bytes", "[session][wants]") {
  Machine m;
  m.Welcome();
  const StreamId worker = m.GiveOne(1, 0, 10, 1);
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
    if (i > 0) used += bytes;  // the first one is `next`, and free
    Arrival arrival = ArrivalOf(m.state->steps(), i, {10, 1}, bytes);
    m.Arrive(worker, arrival, used);
  }
  CHECK(credit > 0);
}

TEST_CASE("want lists follow each other only when the last one is written", "[session][wants]") {
  Machine m;
  m.Welcome();
  const StreamId worker = m.GiveOne(1, 0, 8, 1);
  REQUIRE(m.Take<SendWants>().size() == 1);
  for (std::uint64_t i = 0; i < 8; ++i) {
    m.Arrive(worker, i, 1);
    m.Pass(60 * kMs);
  }
  CHECK(m.Take<SendWants>().empty());
  m.state->OnBatchesWritten(worker, m.now);
  CHECK(m.Take<SendWants>().size() == 1);
}

TEST_CASE(
    "batches that the loop keeps narrow the window down to the next one, and that wait is named",
    "[session][wants]") {
  Machine m;
  m.Welcome();
  const StreamId worker = m.GiveOne(1, 0, 10, 1);
  m.state->SetLoopHolds(2, m.now);
  CHECK(m.state->window() == 8);
  m.state->SetLoopHolds(5, m.now);
  CHECK(m.state->window() == 5);
  m.state->SetLoopHolds(100, m.now);
  CHECK(m.state->window() == 1);
  m.state->SetWaiting(true, m.now);
  CHECK(m.state->stats(m.now).now == WaitCause::kSlot);
  CHECK(m.Arrive(worker, 0, 1) == Verdict::kTaken);
}

// --- workers that fail ------------------------------------------------------------------------

TEST_CASE("a broken stream gives its leases back and marks the worker failing",
          "[session][failing]") {
  Machine m;
  m.Welcome();
  m.Give({m.LeaseOf(1, 0, 3, 1), m.LeaseOf(2, 3, 3, 2)});
  const auto opened = m.Take<OpenBatches>();
  m.state->OnBatchesClosed(opened[0].stream, Unavailable("reset"), m.now);
  const v1::Report report = m.PassAttached(kSecond);
  REQUIRE(report.held_size() == 1);
  CHECK(FromProto(report.held(0).id()) == Number{10, 2});
  const v1::Failing failing = OnlyFailing(report);
  CHECK(FromProto(failing.worker()) == Number{10, 1});
  CHECK(failing.reason() == "reset");
  CHECK(m.state->stats(m.now).lapsed_leases == 1);
}

TEST_CASE("a worker that owes and is silent for 3 s has failed; one that owes nothing has not",
          "[session][failing]") {
  Machine m;
  m.Welcome();
  m.Give({m.LeaseOf(1, 0, 3, 1), m.LeaseOf(2, 9, 1, 2)});  // the second gets no room
  const auto opened = m.Take<OpenBatches>();
  m.Wants(opened[0].stream);
  m.Wants(opened[1].stream);
  m.PassAttached(2900 * kMs);
  CHECK(m.Take<CloseStream>().empty());
  m.PassAttached(200 * kMs);
  const auto closed = m.Take<CloseStream>();
  REQUIRE(closed.size() == 1);
  CHECK(closed[0].stream == opened[0].stream);
  m.PassAttached(5 * kSecond);
  CHECK(m.Take<CloseStream>().empty());
}

TEST_CASE("a worker that takes no want list for 3 s has failed, though it owes nothing yet",
          "[session][failing]") {
  Machine m;
  m.Welcome();
  const StreamId worker = m.GiveOne(1, 0, 2, 1);
  m.Wants(worker);
  m.Arrive(worker, 0, 1);
  m.Arrive(worker, 1, 1);
  m.Give({m.LeaseOf(2, 2, 2, 1)});
  REQUIRE(m.Take<SendWants>().size() == 1);
  m.Arrive(worker, 0, 1);  // whatever it had on its way
  m.PassAttached(3500 * kMs);
  const auto closed = m.Take<CloseStream>();
  REQUIRE(closed.size() == 1);
  CHECK(closed[0].stream == worker);
}

TEST_CASE("a worker that owes and says that it lives is not given up", "[session][failing]") {
  Machine m;
  m.Welcome();
  const StreamId worker = m.GiveOne(1, 0, 3, 1);
  m.Wants(worker);
  v1::BatchPart alive;
  alive.mutable_alive();
  for (int i = 0; i < 20; ++i) {
    m.PassAttached(kSecond);
    m.state->OnBatchesPart(worker, alive, 0, m.now);
  }
  CHECK(m.Take<CloseStream>().empty());
  CHECK(m.state->leases().all().size() == 1);
}

TEST_CASE("a process that stood still does not blame the others", "[session][failing]") {
  Machine m;
  m.Welcome();
  const StreamId worker = m.GiveOne(1, 0, 3, 1);
  m.Wants(worker);
  m.PassAttached(kSecond);
  m.now = m.now + 60 * kSecond;  // no tick in between
  m.state->Tick(m.now);
  CHECK(m.Take<CloseStream>().empty());
  m.Pass(4 * kSecond);
  CHECK(m.Take<CloseStream>().size() == 2);
}

TEST_CASE("failing lasts 3 s, doubles to 60 s, and begins anew after a good batch",
          "[session][failing]") {
  Machine m;
  m.Welcome();
  std::vector<double> lasts;
  std::uint64_t n = 1;
  for (; n <= 7; ++n) {
    const StreamId stream = m.GiveOne(n, 0, 3, 1);
    REQUIRE(stream != 0);
    m.state->OnBatchesClosed(stream, Unavailable("reset"), m.now);
    lasts.push_back(ToSeconds(m.state->workers().Find({10, 1})->failing_until - m.now));
  }
  CHECK(lasts == std::vector<double>{3, 6, 12, 24, 48, 60, 60});
  const StreamId stream = m.GiveOne(n, 0, 3, 1);
  m.Arrive(stream, 0, n);
  CHECK(m.PassAttached(kSecond).failing_size() == 0);
  m.state->OnBatchesClosed(stream, Unavailable("reset"), m.now);
  CHECK(ToSeconds(m.state->workers().Find({10, 1})->failing_until - m.now) == 3);
}

TEST_CASE("a worker that failed long ago and is not leased from is forgotten",
          "[session][failing]") {
  Machine m;
  m.Welcome();
  const StreamId gone = m.GiveOne(1, 0, 4, 1);
  const StreamId alive = m.GiveOne(2, 4, 4, 2);
  m.state->OnBatchesClosed(gone, Unavailable("killed"), m.now);
  CHECK(m.state->workers().all().size() == 2);
  for (int i = 0; i < 700; ++i) {
    v1::BatchPart pulse;
    pulse.mutable_alive();
    m.state->OnBatchesPart(alive, pulse, 0, m.now);
    m.PassAttached(kSecond);
  }
  CHECK(m.state->workers().all().size() == 1);
  CHECK(m.state->workers().Find(Number{10, 2}) != nullptr);
}

TEST_CASE("failing is over when its time is", "[session][failing]") {
  Machine m;
  m.Welcome();
  m.state->OnBatchesClosed(m.GiveOne(1, 0, 3, 1), Unavailable("reset"), m.now);
  CHECK(OnlyFailing(m.PassAttached(kSecond)).remaining_seconds() > 1);
  CHECK(m.PassAttached(4 * kSecond).failing_size() == 0);
}

TEST_CASE("a refused lease lapses alone and marks the worker failing", "[session][failing]") {
  Machine m;
  m.Welcome();
  m.Give({m.LeaseOf(1, 0, 3, 1), m.LeaseOf(2, 3, 3, 1)});
  const StreamId worker = m.Take<OpenBatches>().at(0).stream;
  v1::BatchPart part;
  ToProto(Number{10, 1}, part.mutable_refused()->mutable_lease());
  part.mutable_refused()->set_message("file x.bin is damaged");
  m.state->OnBatchesPart(worker, part, 0, m.now);
  CHECK(m.Take<CloseStream>().empty());
  const v1::Report report = m.PassAttached(kSecond);
  REQUIRE(report.held_size() == 1);
  CHECK(FromProto(report.held(0).id()) == Number{10, 2});
  CHECK(OnlyFailing(report).reason() == "file x.bin is damaged");
}

/// Step 1 of lease 10.1 comes of another worker; what is reported then.
v1::Report PassSteps(Machine& m, StreamId other, std::uint64_t steps) {
  for (std::uint64_t step = m.state->next(); step < steps; ++step) {
    if (!m.state->holds(step)) m.Arrive(other, step, 2);
    m.state->OnTaken(m.now);
  }
  return m.PassAttached(kSecond);
}

TEST_CASE("a refusal for good is reported with its code until the lease's steps are passed",
          "[session][failing]") {
  Machine m;
  m.Welcome();
  m.Give({m.LeaseOf(1, 0, 2, 1), m.LeaseOf(2, 2, 3, 1)});
  const StreamId worker = m.Take<OpenBatches>().at(0).stream;
  v1::BatchPart part;
  ToProto(Number{10, 1}, part.mutable_refused()->mutable_lease());
  part.mutable_refused()->set_message("file x.bin is damaged");
  part.mutable_refused()->set_code(static_cast<std::uint32_t>(StatusCode::kDataLoss));
  m.state->OnBatchesPart(worker, part, 0, m.now);
  m.Arrive(worker, 2, 1);  // a good batch of other steps changes nothing
  const v1::Failing failing = OnlyFailing(m.PassAttached(10 * kSecond));
  CHECK(failing.code() == static_cast<std::uint32_t>(StatusCode::kDataLoss));
  CHECK(failing.reason() == "file x.bin is damaged");
  m.Give({m.LeaseOf(3, 0, 2, 2)});
  const StreamId other = m.Take<OpenBatches>().at(0).stream;
  CHECK(PassSteps(m, other, 1).failing_size() == 1);
  CHECK(PassSteps(m, other, 2).failing_size() == 0);
}

TEST_CASE("a refusal that may pass is reported without a code", "[session][failing]") {
  Machine m;
  m.Welcome();
  const StreamId worker = m.GiveOne(1, 0, 3, 1);
  v1::BatchPart part;
  ToProto(Number{10, 1}, part.mutable_refused()->mutable_lease());
  part.mutable_refused()->set_code(static_cast<std::uint32_t>(StatusCode::kUnavailable));
  m.state->OnBatchesPart(worker, part, 0, m.now);
  CHECK(OnlyFailing(m.PassAttached(kSecond)).code() == 0);
}

TEST_CASE("a batch over the limit can never come; one that was damaged on the way can",
          "[session][failing]") {
  Machine m;
  m.Welcome();
  const StreamId worker = m.GiveOne(1, 0, 3, 1);
  v1::BatchPart part;
  ToProto(m.state->steps().At(0), part.mutable_at());
  part.set_total_bytes(m.state->batch_limit_bytes() + 1);
  m.state->OnBatchesPart(worker, part, 100, m.now);
  const bool too_large = GENERATE(true, false);
  const Status why = too_large ? OutOfRange("a batch of 9 GiB") : DataLoss("another digest");
  m.state->OnBatchesBad(worker, why, m.now);
  const v1::Failing failing = OnlyFailing(m.PassAttached(kSecond));
  CHECK(failing.code() == (too_large ? static_cast<std::uint32_t>(StatusCode::kOutOfRange) : 0));
  CHECK(failing.reason() == why.message());
}

TEST_CASE("a worker that drains keeps what it may build and gives back the rest",
          "[session][failing]") {
  Machine m;
  m.Welcome();
  m.Give({m.LeaseOf(1, 0, 10, 1)});
  const StreamId worker = m.Take<OpenBatches>().at(0).stream;
  REQUIRE(TotalRoom(*m.Wants(worker)) == 8);
  v1::BatchPart part;
  part.set_going_away(true);
  m.state->OnBatchesPart(worker, part, 0, m.now);
  v1::Report report = m.PassAttached(kSecond);
  REQUIRE(report.held_size() == 1);
  CHECK(report.held(0).shard().batches() == 8);
  CHECK(report.failing_size() == 1);
  for (std::uint64_t i = 0; i < 8; ++i) CHECK(m.Arrive(worker, i, 1) == Verdict::kTaken);
  for (std::uint64_t i = 0; i < 8; ++i) m.TakeBatch();
  CHECK(m.state->leases().all().empty());
  m.state->OnBatchesClosed(worker, OkStatus(), m.now);
  CHECK_FALSE(m.logger->Has(LogLevel::kWarning, "worker failed"));
}

TEST_CASE("a stream that no lease needs is closed after a while", "[session][wants]") {
  Machine m;
  m.Welcome();
  const StreamId worker = m.GiveOne(1, 0, 1, 1);
  m.Wants(worker);
  m.Arrive(worker, 0, 1);
  m.PassAttached(9 * kSecond);
  CHECK(m.Take<CloseStream>().empty());
  m.PassAttached(2 * kSecond);
  const auto closed = m.Take<CloseStream>();
  REQUIRE(closed.size() == 1);
  CHECK(closed[0].why.ok());
}

// --- batches ----------------------------------------------------------------------------------

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

TEST_CASE("a copy of a late lease gets room for one batch more than the window",
          "[session][wants]") {
  Machine m;
  m.Welcome();
  m.Give({m.LeaseOf(1, 0, 10, 1), m.LeaseOf(2, 0, 10, 2, true)});
  const auto opened = m.Take<OpenBatches>();
  CHECK(TotalRoom(*m.Wants(opened[0].stream)) == 8);
  CHECK(TotalRoom(*m.Wants(opened[1].stream)) == 1);
}

TEST_CASE("where the original of a copy is gone, the copy has all the room", "[session][wants]") {
  Machine m;
  m.Welcome();
  m.Give({m.LeaseOf(1, 0, 10, 1), m.LeaseOf(2, 0, 10, 2, true)});
  const auto opened = m.Take<OpenBatches>();
  m.Wants(opened[1].stream);
  m.state->OnBatchesClosed(opened[0].stream, Unavailable("reset"), m.now);
  CHECK(TotalRoom(*m.Wants(opened[1].stream)) == 8);
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
  REQUIRE(arrive(600, 100'000));  // one large batch: the window shrinks under what is in flight
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
  ToProto(m.state->steps().At(5000), part.mutable_at());  // far from anything that is leased
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

// --- waits ------------------------------------------------------------------------------------

TEST_CASE("every wait has its name, and its seconds go to it", "[session][wait]") {
  Machine m;
  m.Welcome();
  m.PassAttached(100 * kMs);
  m.state->SetWaiting(true, m.now);
  const auto cause = [&m] { return m.state->stats(m.now).now; };
  CHECK(cause() == WaitCause::kLease);
  m.PassAttached(500 * kMs);
  const StreamId worker = m.GiveOne(1, 0, 3, 1);
  CHECK(cause() == WaitCause::kConnect);
  m.PassAttached(250 * kMs);
  v1::BatchPart alive;
  ToProto(Position{0, 10}, alive.mutable_alive()->mutable_building());
  m.state->OnBatchesPart(worker, alive, 0, m.now);
  CHECK(cause() == WaitCause::kQueue);
  ToProto(Position{0, 0}, alive.mutable_alive()->mutable_building());
  alive.mutable_alive()->set_stage("closure");
  m.state->OnBatchesPart(worker, alive, 0, m.now);
  CHECK(cause() == WaitCause::kBuild);
  CHECK(m.state->stats(m.now).now_stage == "closure");
  CHECK(m.state->stats(m.now).now_worker == "worker1:1");
  v1::BatchPart data;
  data.set_total_bytes(1000);
  ToProto(Position{0, 0}, data.mutable_at());
  m.state->OnBatchesPart(worker, data, 500, m.now);
  CHECK(cause() == WaitCause::kTransfer);
  m.state->OnBatchesArrival(worker, ArrivalOf(m.state->steps(), 0, {10, 1}), m.now);
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

TEST_CASE("counters are of what the loop took, dropped examples by reason", "[session][wait]") {
  Machine m;
  m.Welcome();
  const StreamId worker = m.GiveOne(1, 0, 3, 1);
  Arrival arrival = ArrivalOf(m.state->steps(), 0, {10, 1});
  arrival.examples = 3;
  arrival.dropped = {DropReason::kTooLarge, DropReason::kExcluded};
  m.Arrive(worker, arrival);
  CHECK(m.state->stats(m.now).batches == 0);
  m.TakeBatch();
  const v1::Counters counters = m.PassAttached(kSecond).counters();
  CHECK(counters.batches() == 1);
  CHECK(counters.examples() == 3);
  CHECK(counters.bytes() == 1000);
  REQUIRE(counters.dropped_size() == 2);
  CHECK(counters.dropped(0).reason() == v1::TOO_LARGE);
}

}  // namespace
}  // namespace millrace::client
