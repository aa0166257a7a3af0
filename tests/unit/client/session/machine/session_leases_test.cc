// Tests of a session's leases, and of the window that they are for.
#include <catch2/catch.hpp>

#include "tests/unit/client/session/machine/machine.h"

namespace millrace::client {
namespace {

TEST_CASE("a report holds leases until the loop has passed them, and the highest lease received",
          "[session][lease]") {
  Machine m;
  m.Welcome();
  m.PassAttached(100 * kMs);
  m.Give({m.LeaseOf(1, 0, 3, 1), m.LeaseOf(2, 3, 3, 2)});
  const auto opened = m.Take<OpenBatches>();
  REQUIRE(opened.size() == 2);
  for (std::uint64_t i = 0; i < 3; ++i) m.Arrive(opened[0].stream, i, 1);
  m.TakeBatch();
  m.TakeBatch();
  v1::Report report = m.PassAttached(kSecond);
  REQUIRE(report.held_size() == 2);
  CHECK(FromProto(report.held(0).id()) == Number{10, 1});  // its last batch waits in the buffer
  CHECK(report.held(0).shard().batches() == 1);
  CHECK(report.held(0).shard().position() == 20);
  CHECK(report.held(0).shard().first_example() == 25);
  CHECK(report.held(1).shard().batches() == 3);
  CHECK(report.buffered_batches() == 1);
  m.TakeBatch();
  report = m.PassAttached(kSecond);
  REQUIRE(report.held_size() == 1);
  CHECK(FromProto(report.held(0).id()) == Number{10, 2});
  CHECK(FromProto(report.last_lease()) == Number{10, 2});
}

TEST_CASE("of a lease that lapses, what came is still held", "[session][lease]") {
  Machine m;
  m.Welcome();
  const StreamId worker = m.GiveOne(1, 0, 4, 1);
  m.Arrive(worker, 0, 1);
  m.Arrive(worker, 1, 1);
  m.state->OnBatchesClosed(worker, Unavailable("reset"), m.now);
  const v1::Report report = m.PassAttached(kSecond);
  REQUIRE(report.held_size() == 1);
  CHECK(report.held(0).shard().batches() == 2);
  CHECK(report.held(0).shard().position() == 0);
}

TEST_CASE("leases that lapse without end leave nothing behind", "[session][lease]") {
  Machine m;
  m.Welcome();
  std::uint64_t n = 0;
  for (int round = 0; round < 200; ++round) {
    std::vector<v1::Lease> leases;
    for (std::uint64_t i = 0; i < 50; ++i) leases.push_back(m.LeaseOf(++n, i, 1, 1));
    m.Give(leases);
    for (const OpenBatches& open : m.Take<OpenBatches>()) {
      m.state->OnBatchesClosed(open.stream, Unavailable("refused"), m.now);
    }
    CHECK(m.state->leases().all().size() <= 50);
    m.PassAttached(100 * kMs);
  }
  // So there is room to take a lease of another worker.
  m.Give({m.LeaseOf(++n, 0, 1, 2)});
  CHECK(m.state->leases().Has({m.term, n}));
}

TEST_CASE("a lease that was received before is not taken a second time", "[session][lease]") {
  Machine m;
  m.Welcome();
  const StreamId worker = m.GiveOne(5, 0, 2, 1);
  m.Arrive(worker, 0, 5);
  m.Arrive(worker, 1, 5);
  m.TakeBatch();
  m.TakeBatch();
  CHECK(m.state->leases().all().empty());
  m.Give({m.LeaseOf(5, 0, 2, 1), m.LeaseOf(4, 2, 2, 1)});
  CHECK(m.state->leases().all().empty());
  m.Give({m.LeaseOf(6, 2, 2, 1)});
  CHECK(m.state->leases().all().size() == 1);
}

TEST_CASE("a lease that is no run of this rank's steps is not believed", "[session][lease]") {
  Machine m;
  m.Welcome();
  v1::Lease lease = m.LeaseOf(1, 0, 2, 1);
  lease.mutable_shard()->set_first_example(0);  // the place of rank 0
  m.Give({lease});
  CHECK(m.state->leases().all().empty());
  CHECK(m.Take<OpenBatches>().empty());
  CHECK(m.logger->Has(LogLevel::kWarning, "bad lease"));
}

TEST_CASE("the window and leases roll over the end of an epoch", "[session][lease]") {
  Machine m;  // 10 steps an epoch
  m.Welcome();
  m.PassAttached(100 * kMs);
  m.Give({m.LeaseOf(1, 8, 2, 1), m.LeaseOf(2, 10, 3, 1), m.LeaseOf(3, 0, 8, 1)});
  const StreamId worker = m.Take<OpenBatches>().at(0).stream;
  for (std::uint64_t i = 0; i < 8; ++i) {
    REQUIRE(m.Arrive(worker, i, 3) == Verdict::kTaken);
    m.TakeBatch();
  }
  CHECK(m.Arrive(worker, 10, 2) == Verdict::kTaken);
  CHECK(m.Arrive(worker, 8, 1) == Verdict::kTaken);
  CHECK(m.Arrive(worker, 9, 1) == Verdict::kTaken);
  m.TakeBatch();
  m.TakeBatch();
  CHECK(m.state->holds(m.state->next()));
  CHECK(m.state->steps().At(m.state->next()) == Position{1, 0});
}

TEST_CASE("the window ends where the last epoch does", "[session][lease]") {
  Machine::Options options;
  options.epochs = 1;
  options.prefetch_bytes = 1'000'000;
  Machine m(options);
  m.Welcome();
  CHECK(m.PassAttached(kSecond).window() == 8);  // the first window
  const StreamId worker = m.GiveOne(1, 0, 10, 1);
  for (std::uint64_t i = 0; i < 7; ++i) {
    m.Arrive(worker, i, 1);
    m.TakeBatch();
  }
  CHECK(m.PassAttached(kSecond).window() == 3);
  for (std::uint64_t i = 7; i < 10; ++i) {
    m.Arrive(worker, i, 1);
    m.TakeBatch();
  }
  const v1::Report report = m.PassAttached(kSecond);
  CHECK(report.window() == 0);
  CHECK(FromProto(report.next()) == Position{1, 0});
}

TEST_CASE("a small window is leased further ahead than it is built, as far as the loop needs",
          "[session][lease]") {
  Machine::Options options;
  options.steps.examples = 100'000;
  options.prefetch_bytes = 10;  // a window of one batch
  Machine m(options);
  m.Welcome();
  CHECK(m.PassAttached(kSecond).window() == 8);
  const StreamId worker = m.GiveOne(1, 0, 64, 1);
  CHECK(TotalRoom(*m.Wants(worker)) == 1);
  for (std::uint64_t i = 0; i < 4; ++i) {
    m.Arrive(worker, i, 1);
    m.TakeBatch();
  }
  CHECK(m.state->window() == 1);
  CHECK(m.PassAttached(Attach::kReportApart).window() == 16);  // four times the batches taken
  CHECK(m.PassAttached(kSecond).window() == 8);                // none was taken since
}

/// Returns the reports that are sent at the present time, and acknowledges their writes.
std::vector<v1::Report> ReportsNow(Machine& m) {
  std::vector<v1::Report> reports;
  for (auto sent = m.Take<SendAttach>(); !sent.empty(); sent = m.Take<SendAttach>()) {
    for (const SendAttach& send : sent) {
      reports.push_back(send.message.report());
      m.state->OnAttachWritten(send.stream, m.now);
    }
  }
  return reports;
}

TEST_CASE("a window that has more than doubled is told of at once", "[session][lease]") {
  Machine m;  // a window of 8 batches at first, and 100 in the end
  m.Welcome();
  m.state->OnAttachWritten(m.attach, m.now);
  ReportsNow(m);
  const StreamId worker = m.GiveOne(1, 0, 8, 1);
  CHECK(ReportsNow(m).empty());
  m.Arrive(worker, 0, 1);
  std::vector<v1::Report> reports = ReportsNow(m);
  REQUIRE(reports.size() == 1);
  CHECK(reports[0].window() == 24);
  for (std::uint64_t i = 1; i < 8; ++i) {
    m.Arrive(worker, i, 1);
    const std::vector<v1::Report> more = ReportsNow(m);
    reports.insert(reports.end(), more.begin(), more.end());
  }
  REQUIRE(reports.size() == 2);
  CHECK(reports[1].window() == 56);  // the rest of the 100 waits for the next regular report
  m.PassAttached(Attach::kReportApart - 100 * kMs);
  CHECK(ReportsNow(m).empty());
}

TEST_CASE("a loop that takes faster than before asks for leases once half of them are left",
          "[session][lease]") {
  Machine::Options options;
  options.steps.examples = 100'000;
  options.prefetch_bytes = 10;  // a window of one batch, so 8 are leased
  Machine m(options);
  m.Welcome();
  m.state->OnAttachWritten(m.attach, m.now);
  ReportsNow(m);
  const StreamId worker = m.GiveOne(1, 0, 1000, 1);
  // Steps taken so far, and the window that the report then asks for.
  std::vector<std::pair<std::uint64_t, std::uint32_t>> asked;
  for (std::uint64_t i = 0; i < 400; ++i) {
    m.Arrive(worker, i, 1);
    m.TakeBatch();
    for (const v1::Report& report : ReportsNow(m)) asked.emplace_back(i + 1, report.window());
  }
  REQUIRE(asked.size() >= 4);
  CHECK(asked.size() <= 8);  // windows grow, so reports become rare
  CHECK(asked[0] == std::pair<std::uint64_t, std::uint32_t>{5, 20});
  for (std::size_t i = 1; i < asked.size(); ++i) {
    const auto& [before, window] = asked[i - 1];
    CHECK(asked[i].first - before == window / 2 + 1);
    CHECK(asked[i].second > window);
  }
}

TEST_CASE("a session whose dispatcher gives no leases does not ask more often than in turn",
          "[session][lease]") {
  Machine m;
  m.Welcome();
  m.state->OnAttachWritten(m.attach, m.now);
  ReportsNow(m);
  m.state->SetWaiting(true, m.now);
  m.Pass(200 * kMs);
  CHECK(ReportsNow(m).empty());
}

TEST_CASE("the lease of a batch that is long due is reported late while its worker lives",
          "[session][lease]") {
  Machine m;
  m.Welcome();
  const StreamId worker = m.GiveOne(1, 0, 4, 1);
  m.state->SetWaiting(true, m.now);
  v1::BatchPart alive;
  alive.mutable_alive();
  v1::Report report;
  for (int i = 0; i < 5; ++i) {
    m.state->OnBatchesPart(worker, alive, 0, m.now);
    report = m.PassAttached(500 * kMs);
  }
  CHECK(FromProto(report.late()) == Number{10, 1});
}

}  // namespace
}  // namespace millrace::client
