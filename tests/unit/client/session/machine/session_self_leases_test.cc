#include <catch2/catch.hpp>

#include "tests/unit/client/session/machine/machine.h"

namespace millrace::client {
namespace {

/// A session that knows two workers. Its dispatcher then says nothing more.
class Deserted : public Machine {
 public:
  Deserted() {
    Welcome();
    Give({LeaseOf(1, 0, 1, 1), LeaseOf(2, 1, 1, 2)});
    const auto opened = Take<OpenBatches>();
    for (const OpenBatches& open : opened) Wants(open.stream);
    Arrive(opened[0].stream, 0, 1);
    Arrive(opened[1].stream, 1, 2);
  }
};

/// Lets time pass. The workers take what they are told, and the dispatcher says nothing.
void PassDeserted(Machine& m, Duration d) {
  for (Duration passed{0}; passed < d; passed += 100 * kMs) {
    m.Pass(100 * kMs);
    for (const SendWants& wants : m.Take<SendWants>()) {
      m.state->OnBatchesWritten(wants.stream, m.now);
    }
  }
}

std::vector<HeldLease> OwnLeases(const Machine& m) {
  std::vector<HeldLease> own;
  for (const auto& [id, held] : m.state->leases().all()) {
    if (id.term == 0) own.push_back(held);
  }
  return own;
}

TEST_CASE("without a dispatcher a session leases its window to itself after 3 s, and no earlier",
          "[session][self]") {
  Deserted m;
  PassDeserted(m, 2900 * kMs);
  CHECK(OwnLeases(m).empty());
  PassDeserted(m, 200 * kMs);
  const std::vector<HeldLease> own = OwnLeases(m);
  REQUIRE_FALSE(own.empty());
  CHECK(m.state->stats(m.now).self_leases == own.size());
  // The own leases cover the whole window, each step once.
  std::uint64_t step = 2;
  for (const HeldLease& held : own) {
    CHECK(held.first == step);
    step = held.end;
    CHECK(m.state->steps().Check(held.lease.shard).ok());
  }
  CHECK(step == m.state->next() + m.state->lease_window());
  CHECK(m.logger->Has(LogLevel::kWarning, "going on with the workers known"));
}

TEST_CASE("both workers that it knows get a part", "[session][self]") {
  Deserted m;
  PassDeserted(m, 3100 * kMs);
  std::set<Number> workers;
  for (const HeldLease& held : OwnLeases(m)) workers.insert(held.lease.worker.id);
  CHECK(workers.size() == 2);
}

TEST_CASE("what it leased to itself is reported as held, and not as received", "[session][self]") {
  Deserted m;
  PassDeserted(m, 3100 * kMs);
  m.Take<SendAttach>();
  m.Welcome();  // the dispatcher is back
  const v1::Report report = m.PassAttached(kSecond);
  bool own = false;
  for (const v1::Lease& lease : report.held()) own = own || lease.id().term() == 0;
  CHECK(own);
  CHECK(FromProto(report.last_lease()) == Number{10, 2});
  CHECK(report.counters().self_leases() > 0);
}

TEST_CASE("a dispatcher that is there but gives no lease is waited for 3 s as well",
          "[session][self]") {
  Deserted m;
  m.PassAttached(2500 * kMs);
  CHECK(OwnLeases(m).empty());
  m.PassAttached(kSecond);
  CHECK_FALSE(OwnLeases(m).empty());
}

TEST_CASE("a dispatcher that is new gets a second to lease, and not another three",
          "[session][self]") {
  Deserted m;
  PassDeserted(m, 1500 * kMs);
  m.state->OnAttachClosed(m.attach, Unavailable("reset"), m.now);
  std::optional<OpenAttach> again;
  while (!(again = m.TakeLast<OpenAttach>())) m.Pass(10 * kMs);
  m.pending.emplace_back(*again);
  m.Welcome();
  m.PassAttached(900 * kMs);
  CHECK(OwnLeases(m).empty());
  m.PassAttached(300 * kMs);
  CHECK_FALSE(OwnLeases(m).empty());
}

TEST_CASE("a session that knows no worker leases nothing to itself", "[session][self]") {
  Machine m;
  m.Welcome();
  m.Pass(20 * kSecond);
  CHECK(OwnLeases(m).empty());
}

TEST_CASE("where all its workers fail, a session tries them at most four times a second",
          "[session][self]") {
  Deserted m;
  PassDeserted(m, 3100 * kMs);
  const std::uint64_t before = m.state->stats(m.now).self_leases;
  for (int i = 0; i < 100; ++i) {
    for (const OpenBatches& open : m.Take<OpenBatches>()) {
      m.state->OnBatchesClosed(open.stream, Unavailable("refused"), m.now);
    }
    m.Pass(100 * kMs);
  }
  const std::uint64_t rounds = (m.state->stats(m.now).self_leases - before) / 2;
  CHECK(rounds > 5);
  CHECK(rounds <= 10 * 4 * 8);
}

TEST_CASE("a worker that drains gets no lease that a session gives itself", "[session][self]") {
  Deserted m;
  m.Give({m.LeaseOf(3, 2, 1, 1)});
  const auto open = m.TakeLast<OpenBatches>();
  for (const auto& [id, link] : m.state->workers().all()) {
    v1::BatchPart leaves;
    leaves.set_going_away(true);
    if (id == Number{10, 1}) m.state->OnBatchesPart(link.stream.id, leaves, 0, m.now);
  }
  PassDeserted(m, 4 * kSecond);
  for (const HeldLease& held : OwnLeases(m)) CHECK(held.lease.worker.id == Number{10, 2});
  CHECK_FALSE(OwnLeases(m).empty());
}

}  // namespace
}  // namespace millrace::client
