#include <catch2/catch.hpp>

#include <algorithm>

#include "tests/unit/client/session/machine/machine.h"

namespace millrace::client {
namespace {

v1::Failing OnlyFailing(const v1::Report& report) {
  REQUIRE(report.failing_size() == 1);
  return report.failing(0);
}

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
  m.Give({m.LeaseOf(1, 0, 8, 1), m.LeaseOf(2, 9, 1, 2)});  // the second gets no room
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

TEST_CASE("a worker that was silent gets no credit at first, and more as its batches come",
          "[session][failing][credit]") {
  Machine m;
  m.Welcome();
  const auto lease = [&](std::uint64_t n, std::uint64_t first) {
    const StreamId stream = m.GiveOne(n, first, 8, 1);
    return std::pair(stream, m.Wants(stream)->credit_bytes());
  };
  const auto [silent, before] = lease(1, 0);
  CHECK(before >= 8000);
  m.PassAttached(3100 * kMs);
  const auto [again, after] = lease(2, 0);
  REQUIRE(again != silent);
  CHECK(after == 0);
  m.Arrive(again, 0, 2);
  m.Arrive(again, 1, 2);
  m.PassAttached(100 * kMs);
  const std::uint64_t grown = m.Wants(again)->credit_bytes();
  CHECK(grown > 0);
  CHECK(grown <= 2000);
}

/// Brings a whole batch of lease 1 as a single part. The worker says that it is the stream's n-th.
Verdict ArriveNth(Machine& m, StreamId stream, std::uint64_t step, std::uint64_t n) {
  const Arrival arrival = ArrivalOf(m.state->steps(), step, {10, 1});
  v1::BatchPart part;
  ToProto(arrival.lease, part.mutable_lease());
  ToProto(arrival.at, part.mutable_at());
  part.set_total_bytes(arrival.bytes);
  part.set_batches_sent(n);
  m.state->OnBatchesPart(stream, part, arrival.bytes, m.now);
  return m.state->OnBatchesArrival(stream, arrival, m.now);
}

void SayAlive(Machine& m, StreamId stream, std::uint64_t batches_sent) {
  v1::BatchPart part;
  part.mutable_alive();
  part.set_batches_sent(batches_sent);
  m.state->OnBatchesPart(stream, part, 0, m.now);
}

TEST_CASE("a stream that has lost a batch is closed when the next batch comes",
          "[session][failing][lost]") {
  Machine m;
  m.Welcome();
  const StreamId stream = m.GiveOne(1, 0, 4, 1);
  m.Wants(stream);
  CHECK(ArriveNth(m, stream, 0, 1) == Verdict::kTaken);
  CHECK(m.Take<CloseStream>().empty());
  CHECK(ArriveNth(m, stream, 2, 3) == Verdict::kUnwanted);
  const auto closed = m.Take<CloseStream>();
  REQUIRE(closed.size() == 1);
  CHECK(closed[0].stream == stream);
  CHECK(closed[0].why.message() == "of 3 batches that it has sent, 1 were lost on the way");
  CHECK(m.state->stats(m.now).lapsed_leases == 1);
}

TEST_CASE("a stream that has lost a batch is closed when the worker says that it lives",
          "[session][failing][lost]") {
  Machine m;
  m.Welcome();
  const StreamId stream = m.GiveOne(1, 0, 4, 1);
  m.Wants(stream);
  SayAlive(m, stream, 0);
  ArriveNth(m, stream, 0, 1);
  SayAlive(m, stream, 1);
  CHECK(m.Take<CloseStream>().empty());
  SayAlive(m, stream, 2);
  CHECK(m.Take<CloseStream>().size() == 1);
}

TEST_CASE("a batch in parts counts as received with its last part", "[session][failing][lost]") {
  Machine m;
  m.Welcome();
  const StreamId stream = m.GiveOne(1, 0, 4, 1);
  m.Wants(stream);
  const Arrival arrival = ArrivalOf(m.state->steps(), 0, {10, 1});
  for (const std::uint64_t offset : {0, 600}) {
    v1::BatchPart part;
    ToProto(arrival.lease, part.mutable_lease());
    ToProto(arrival.at, part.mutable_at());
    part.set_total_bytes(arrival.bytes);
    part.set_offset(offset);
    part.set_batches_sent(1);
    m.state->OnBatchesPart(stream, part, offset == 0 ? 600 : 400, m.now);
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
  const StreamId stream = m.GiveOne(1, 0, 4, 1);
  m.Wants(stream);
  ArriveNth(m, stream, 0, 1);
  CHECK(ArriveNth(m, stream, 0, 1) == Verdict::kDuplicate);
  CHECK(m.Take<CloseStream>().empty());
  SayAlive(m, stream, 2);
  CHECK(m.Take<CloseStream>().size() == 1);
}

TEST_CASE("a worker that does not count its batches has lost none", "[session][failing][lost]") {
  Machine m;
  m.Welcome();
  const StreamId stream = m.GiveOne(1, 0, 4, 1);
  m.Wants(stream);
  ArriveNth(m, stream, 0, 0);
  SayAlive(m, stream, 0);
  CHECK(ArriveNth(m, stream, 1, 0) == Verdict::kTaken);
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
  m.Arrive(worker, 0, 1);  // a batch that was on its way
  m.PassAttached(3500 * kMs);
  const auto closed = m.Take<CloseStream>();
  REQUIRE(closed.size() == 1);
  CHECK(closed[0].stream == worker);
}

TEST_CASE("a worker that owes and says that it lives is not given up", "[session][failing]") {
  Machine m;
  m.Welcome();
  const StreamId worker = m.GiveOne(1, 0, 8, 1);
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

TEST_CASE("a worker that is told and says for 3 s that it hears nothing is given up",
          "[session][failing]") {
  Machine m;
  m.Welcome();
  const StreamId worker = m.GiveOne(1, 0, 8, 1);
  m.Wants(worker);
  const auto alive = [&](std::uint32_t wants_age_ms) {
    v1::BatchPart part;
    part.mutable_alive()->set_wants_age_ms(wants_age_ms);
    m.state->OnBatchesPart(worker, part, 0, m.now);
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
  CHECK(m.state->leases().all().empty());
  const StreamId again = m.GiveOne(2, 0, 8, 1);
  REQUIRE(again != worker);
  CHECK(m.Wants(again)->credit_bytes() == 0);  // as after a silence
  CHECK(m.logger->Has(LogLevel::kWarning, "no want list came to it for 3.0 s"));
}

TEST_CASE("a worker that is told nothing may hear nothing", "[session][failing]") {
  Machine m({.epochs = 1});
  m.Welcome();
  m.Give({m.LeaseOf(1, 0, 2, 1), m.LeaseOf(2, 2, 8, 2)});
  const auto streams = m.Take<OpenBatches>();
  m.Wants(streams[0].stream);
  m.Wants(streams[1].stream);
  m.Arrive(streams[0].stream, 0, 1);
  m.Arrive(streams[0].stream, 1, 1);
  v1::BatchPart hears;
  hears.mutable_alive();
  for (int i = 0; i < 6; ++i) {
    m.PassAttached(kSecond);
    m.state->OnBatchesPart(streams[1].stream, hears, 0, m.now);
  }
  v1::BatchPart part;
  part.mutable_alive()->set_wants_age_ms(6000);
  m.state->OnBatchesPart(streams[0].stream, part, 0, m.now);
  CHECK(m.Take<CloseStream>().empty());
  m.Give({m.LeaseOf(3, 2, 2, 1, true)});
  REQUIRE(m.Wants(streams[0].stream));
  m.state->OnBatchesPart(streams[0].stream, part, 0, m.now);  // the want list is on its way
  CHECK(m.Take<CloseStream>().empty());
}

TEST_CASE("a process that stood still does not blame the others", "[session][failing]") {
  Machine m;
  m.Welcome();
  const StreamId worker = m.GiveOne(1, 0, 8, 1);
  m.Wants(worker);
  m.PassAttached(kSecond);
  m.now = m.now + 60 * kSecond;  // no tick in between
  m.state->Tick(m.now);
  CHECK(m.Take<CloseStream>().empty());
  m.Pass(3500 * kMs);
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
  m.Give({m.LeaseOf(3, 0, 4, 2)});
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

/// The loop takes all steps below `steps`. Steps that are not held come from worker 2, on stream
/// `other`. Returns the report after that.
v1::Report PassSteps(Machine& m, StreamId other, std::uint64_t steps) {
  for (std::uint64_t step = m.state->next(); step < steps; ++step) {
    if (!m.state->holds(step)) REQUIRE(m.Arrive(other, step, 2) == Verdict::kTaken);
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

TEST_CASE("a batch that a user's code fails to build is named until the loop has passed it",
          "[session][failing]") {
  Machine m;
  m.Welcome();
  m.Give({m.LeaseOf(1, 0, 3, 1)});
  const StreamId worker = m.Take<OpenBatches>().at(0).stream;
  v1::BatchPart part;
  ToProto(Number{10, 1}, part.mutable_refused()->mutable_lease());
  part.mutable_refused()->set_message("ValueError");
  part.mutable_refused()->set_code(static_cast<std::uint32_t>(StatusCode::kAborted));
  const bool known = GENERATE(true, false);
  // A place outside of the lease says nothing, and the whole lease is meant.
  ToProto(m.state->steps().At(known ? 1 : 7), part.mutable_refused()->mutable_at());
  m.state->OnBatchesPart(worker, part, 0, m.now);
  const v1::Failing failing = OnlyFailing(m.PassAttached(kSecond));
  CHECK(failing.code() == static_cast<std::uint32_t>(StatusCode::kAborted));
  if (known) {
    REQUIRE(failing.refused_size() == 1);
    CHECK(FromProto(failing.refused(0).at()) == m.state->steps().At(1));
    CHECK(failing.refused(0).reason() == "ValueError");
  } else {
    CHECK(failing.refused_size() == 0);
  }
  m.Give({m.LeaseOf(3, 0, 3, 2)});
  StreamId other = 0;
  for (const OpenBatches& open : m.Take<OpenBatches>()) {
    if (open.worker.address == "worker2:1") other = open.stream;
  }
  // Later the worker is also silent, which is another matter.
  const auto refuses = [&](std::uint64_t steps) {
    const v1::Report report = PassSteps(m, other, steps);
    return std::any_of(report.failing().begin(), report.failing().end(),
                       [](const v1::Failing& one) { return one.code() != 0; });
  };
  CHECK(refuses(1));
  CHECK(refuses(2) == !known);
  CHECK_FALSE(refuses(3));
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

/// A worker says on its stream that it drains.
void GoAway(Machine& m, StreamId worker) {
  v1::BatchPart part;
  part.set_going_away(true);
  m.state->OnBatchesPart(worker, part, 0, m.now);
}

TEST_CASE("a worker that drains keeps what it may build and gives back the rest",
          "[session][failing]") {
  Machine m;
  m.Welcome();
  m.Give({m.LeaseOf(1, 0, 10, 1)});
  const StreamId worker = m.Take<OpenBatches>().at(0).stream;
  REQUIRE(TotalRoom(*m.Wants(worker)) == 8);
  GoAway(m, worker);
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

TEST_CASE("of a worker that drains nothing is waited for that it was not told",
          "[session][failing]") {
  Machine m;
  m.Welcome();
  m.Give({m.LeaseOf(1, 0, 10, 1)});
  const StreamId worker = m.Take<OpenBatches>().at(0).stream;
  REQUIRE(TotalRoom(*m.Wants(worker)) == 8);
  for (std::uint64_t i = 0; i < 3; ++i) CHECK(m.Arrive(worker, i, 1) == Verdict::kTaken);
  GoAway(m, worker);  // before it is told to build more
  for (std::uint64_t i = 3; i < 8; ++i) CHECK(m.Arrive(worker, i, 1) == Verdict::kTaken);
  for (const auto& [id, held] : m.state->leases().all()) CHECK_FALSE(held.lacks());
}

TEST_CASE("a worker that drains is told again of what had no room meanwhile",
          "[session][failing]") {
  Machine::Options options;
  options.prefetch_bytes = 8000;
  Machine m(options);
  m.Welcome();
  m.Give({m.LeaseOf(1, 0, 4, 1), m.LeaseOf(2, 4, 6, 2)});
  const std::vector<OpenBatches> opened = m.Take<OpenBatches>();
  REQUIRE(opened.size() == 2);
  const StreamId drains = opened[0].stream;
  const StreamId other = opened[1].stream;
  REQUIRE(TotalRoom(*m.Wants(drains)) == 4);
  GoAway(m, drains);
  m.Give({m.LeaseOf(3, 10, 6, 2)});
  // Later batches fill the buffer, so that only the next one has room.
  for (std::uint64_t i = 4; i < 13; ++i) {
    m.Pass(100 * kMs);
    m.Wants(other);
    m.Wants(drains);
    m.Arrive(other, i, i < 10 ? 2 : 3);
  }
  m.Pass(100 * kMs);
  m.Wants(drains);
  REQUIRE(m.state->leases().Covering(0)->room == 1);
  CHECK(m.Arrive(drains, 0, 1) == Verdict::kTaken);
  m.TakeBatch();
  m.Wants(drains);
  m.Pass(100 * kMs);
  const std::optional<v1::WantList> wants = m.Wants(drains);
  REQUIRE(wants);
  CHECK(TotalRoom(*wants) == 1);
}

TEST_CASE("a lease that crosses a worker's draining is given back, not waited for",
          "[session][failing]") {
  Machine m;
  m.Welcome();
  const StreamId worker = m.GiveOne(1, 0, 2, 1);
  GoAway(m, worker);
  m.Give({m.LeaseOf(2, 2, 4, 1)});  // was on its way already
  v1::Report report = m.PassAttached(kSecond);
  CHECK(report.last_lease().n() == 2);
  REQUIRE(report.held_size() == 1);
  CHECK(report.held(0).id().n() == 1);
}

}  // namespace
}  // namespace millrace::client
