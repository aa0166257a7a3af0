#include <catch2/catch.hpp>

#include "common/base/protocol_limits.h"
#include "tests/unit/client/session/machine/machine.h"

namespace millrace::client {
namespace {

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

TEST_CASE("a report says what is granted to all workers together", "[session][wants]") {
  Machine m;
  m.Welcome();
  m.Give({m.LeaseOf(1, 0, 3, 1), m.LeaseOf(2, 3, 3, 2)});
  const auto opened = m.Take<OpenBatches>();
  REQUIRE(opened.size() == 2);
  std::uint32_t room = 0;
  std::uint64_t credit = 0;
  for (const OpenBatches& stream : opened) {
    const auto list = m.Wants(stream.stream);
    REQUIRE(list);
    for (const v1::Want& want : list->wants()) room += want.room();
    credit += list->credit_bytes();
  }
  CHECK(room == 6);
  const v1::Report report = m.PassAttached(kSecond);
  CHECK(report.grants().window() == m.state->window());
  CHECK(report.grants().room() == room);
  CHECK(report.grants().credit_bytes() == credit);
}

TEST_CASE("want lists name the job and its priority, so that workers can divide their time",
          "[session][wants]") {
  Machine m({.priority = 7});
  m.Welcome();
  const StreamId worker = m.GiveOne(1, 0, 3, 1);
  const auto first = m.Wants(worker);
  REQUIRE(first);
  CHECK(first->job() == "j");
  CHECK(first->priority() == 7);
  m.Arrive(worker, 0, 1);
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
  const StreamId worker = m.GiveOne(1, 0, 2, 1);
  const auto first = m.Wants(worker);
  REQUIRE(first);
  m.PassAttached(900 * kMs);
  CHECK(!m.Wants(worker));
  m.PassAttached(200 * kMs);
  const auto again = m.Wants(worker);
  REQUIRE(again);
  CHECK(again->SerializeAsString() == first->SerializeAsString());
  m.Arrive(worker, 0, 1);
  m.Arrive(worker, 1, 1);
  m.PassAttached(kSecond);
  m.Wants(worker);  // credit and room have changed
  m.PassAttached(2 * kSecond);
  CHECK(!m.Wants(worker));
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
  CHECK(m.state->window() == 9);  // 100,000 bytes of batches, and the next one
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
    if (i > 0) used += bytes;  // the first batch is `next` and needs no credit
    Arrival arrival = ArrivalOf(m.state->steps(), i, {10, 1}, bytes);
    m.Arrive(worker, arrival, used);
  }
  CHECK(credit > 0);
}

TEST_CASE("an estimate beyond all measure gives no credit beyond memory", "[session][wants]") {
  Machine m({.max_batch_bytes = ~std::uint64_t{0}});
  m.Welcome();
  const StreamId worker = m.GiveOne(1, 0, 8, 1);
  const auto wants = m.Wants(worker);
  REQUIRE(wants);
  CHECK(TotalRoom(*wants) == 1);
  CHECK(wants->credit_bytes() == m.options.prefetch_bytes);
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

TEST_CASE("a stream that no lease needs is closed after a while", "[session][wants]") {
  Machine m({.steps = {.examples = 10, .size = 5, .world_size = 2}, .epochs = 1});  // one step
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

TEST_CASE("leases without end are held to what a report may name; those beyond are over",
          "[session][wants]") {
  Machine m;
  m.Welcome();
  std::vector<v1::Lease> leases;
  for (std::uint64_t n = 1; n <= kMaxHeldLeases + 100; ++n) {
    leases.push_back(m.LeaseOf(n, 0, 1, 1));
  }
  m.Give(leases);
  const v1::Report report = m.PassAttached(kSecond);
  CHECK(report.held_size() == static_cast<int>(kMaxHeldLeases));
  CHECK(report.last_lease().n() == kMaxHeldLeases + 100);
}

}  // namespace
}  // namespace millrace::client
