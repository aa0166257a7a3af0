#include <catch2/catch.hpp>

#include <string>

#include "server/dispatcher/machine/counters.h"
#include "server/dispatcher/service/dispatcher_metrics.h"
#include "tests/unit/server/dispatcher/machine/harness.h"

namespace millrace {
namespace {

using test::Harness;
using test::HelloOptions;
using test::MakeHello;
using test::seconds;

/// The dispatcher of a harness, with a counters of all its updates.
struct Counted {
  Harness harness;
  DispatcherCounters counters{"memory"};
  std::size_t seen = 0;

  MetricSet Metrics() {
    for (; seen < harness.updates.size(); ++seen) counters.WillApply(harness.updates[seen]);
    MetricSet metrics;
    AddDispatcherMetrics(*harness.dispatcher, harness.options, counters, harness.now.time,
                         static_cast<double>(harness.now.unix_seconds), metrics);
    return metrics;
  }
  double Value(Metric metric, const MetricSet::Labels& labels = {}) {
    const MetricSet metrics = Metrics();
    const auto found = metrics.values(metric).find(labels);
    return found == metrics.values(metric).end() ? -1 : found->second;
  }
};

v1::Report ReportOf(std::uint64_t example, std::uint64_t batches, double waited = 0) {
  v1::Report report;
  report.mutable_next()->set_example(example);
  report.mutable_counters()->set_batches(batches);
  report.mutable_counters()->set_examples(batches * 4);
  report.mutable_counters()->set_bytes(batches * 100);
  v1::WaitedSeconds& w = *report.mutable_counters()->add_waited();
  w.set_cause(v1::WAIT_BUILD);
  w.set_seconds(waited);
  return report;
}

TEST_CASE("dropped examples count by the names of the plan, and those without a name as one",
          "[metrics]") {
  Counted c;
  const StreamId stream = c.harness.Attach(HelloOptions{.world_size = 1});
  CHECK(c.Value(Metric::kExamplesDropped, {"other"}) == 0);
  v1::Report report = ReportOf(8, 2);
  c.harness.Report(stream, report);
  for (const auto& [reason, examples] :
       {std::pair(1, 5), std::pair(2, 1), std::pair(17, 3), std::pair(18, 4)}) {
    v1::DroppedCount& count = *report.mutable_counters()->add_dropped();
    count.set_reason(static_cast<v1::DropReason>(reason));
    count.set_examples(static_cast<std::uint64_t>(examples));
  }
  c.harness.Report(stream, report);
  CHECK(c.Value(Metric::kExamplesDropped, {"torn"}) == 5);
  CHECK(c.Value(Metric::kExamplesDropped, {"too_large"}) == 1);
  CHECK(c.Value(Metric::kExamplesDropped, {"other"}) == 7);
  CHECK(c.Value(Metric::kExamplesDropped, {"excluded"}) == 0);
}

TEST_CASE("tokens count by jobs whose plans have any, from 0 on", "[metrics]") {
  Counted c;
  c.harness.Attach(HelloOptions{.job = "plain", .nonce = 'a'});
  CHECK(c.Metrics().values(Metric::kTokensDelivered).empty());
  const StreamId stream = c.harness.Attach(HelloOptions{
      .job = "text", .world_size = 1, .yaml = test::Yaml("tokens=ids\n"), .nonce = 'b'});
  CHECK(c.Value(Metric::kTokensDelivered, {"text"}) == 0);
  v1::Report report = ReportOf(8, 2);
  report.mutable_counters()->set_tokens(4096);
  c.harness.Report(stream, report);
  report.mutable_counters()->set_tokens(6000);
  c.harness.Report(stream, report);
  CHECK(c.Value(Metric::kTokensDelivered, {"text"}) == 6000);
  c.harness.Bye(stream);
  const StreamId next = c.harness.Attach(HelloOptions{
      .job = "text", .world_size = 1, .yaml = test::Yaml("tokens=ids\n"), .nonce = 'c'});
  report.mutable_counters()->set_tokens(500);
  c.harness.Report(next, report);
  CHECK(c.Value(Metric::kTokensDelivered, {"text"}) == 6500);
  CHECK(c.Value(Metric::kTokensDelivered, {"plain"}) == -1);
}

TEST_CASE("lost pieces count by job and by the names of the plan", "[metrics]") {
  Counted c;
  const StreamId stream = c.harness.Attach(HelloOptions{.world_size = 1});
  CHECK(c.Metrics().values(Metric::kPiecesLost).empty());
  v1::Report report = ReportOf(8, 2);
  for (const auto& [reason, pieces] : {std::pair(1, 5), std::pair(4, 1), std::pair(17, 3)}) {
    v1::LostPieces& lost = *report.mutable_counters()->add_pieces_lost();
    lost.set_reason(static_cast<v1::DropReason>(reason));
    lost.set_pieces(static_cast<std::uint64_t>(pieces));
  }
  c.harness.Report(stream, report);
  report.mutable_counters()->mutable_pieces_lost(1)->set_pieces(11);
  c.harness.Report(stream, report);
  CHECK(c.Value(Metric::kPiecesLost, {"x", "torn"}) == 5);
  CHECK(c.Value(Metric::kPiecesLost, {"x", "excluded"}) == 11);
  CHECK(c.Value(Metric::kPiecesLost, {"x", "other"}) == 3);
  CHECK(c.Value(Metric::kExamplesDropped, {"excluded"}) == 0);
}

TEST_CASE("workers whose copy of an open dataset differs are counted", "[metrics]") {
  Counted c;
  v1::DatasetState here;
  here.set_digest(std::string(32, '1'));
  c.harness.Do(c.harness.dispatcher->OnDataset("stdlib", here, c.harness.now));
  c.harness.Do(c.harness.dispatcher->OnDataset("closed", {}, c.harness.now));
  const StreamId stream = c.harness.AddWorker("w1");
  v1::WorkRequest& request = c.harness.workers[stream];
  const auto differing_if_digest_is = [&](const std::string& digest) {
    (*request.mutable_datasets())["stdlib"].set_digest(digest);
    c.harness.Work(stream, request);
    return c.Value(Metric::kDifferingWorkers, {"stdlib"});
  };
  CHECK(differing_if_digest_is("") == 0);
  CHECK(differing_if_digest_is(std::string(32, '2')) == 1);
  CHECK(differing_if_digest_is(here.digest()) == 0);
  CHECK(c.Value(Metric::kDifferingWorkers, {"closed"}) == -1);
}

TEST_CASE("a job's live consumers are counted by rank, not by replica", "[metrics]") {
  Counted c;
  CHECK(c.Metrics().values(Metric::kJobConsumers).empty());
  const StreamId stream = c.harness.Attach(HelloOptions{.job = "a", .nonce = 'a'});
  CHECK(c.Value(Metric::kJobConsumers, {"a"}) == 1);
  c.harness.Attach(HelloOptions{.job = "a", .nonce = 'b', .replica = 1});
  CHECK(c.Value(Metric::kJobConsumers, {"a"}) == 1);
  c.harness.Bye(stream);
  CHECK(c.Value(Metric::kJobConsumers, {"a"}) == -1);
}

TEST_CASE("each branch of a job's mix has its passes, and a job without one has none",
          "[metrics]") {
  Counted c;
  c.harness.Attach(HelloOptions{.job = "plain", .nonce = 'a'});
  CHECK(c.Metrics().values(Metric::kBranchPasses).empty());
  const std::string mix =
      "examples=140\nsize=5\nbranches=words:stdlib:7:49,programs:stdlib:3:100\n";
  c.harness.Attach(HelloOptions{.job = "mix", .yaml = mix, .start = {1, 70}, .nonce = 'b'});
  CHECK(c.Value(Metric::kBranchPasses, {"mix", "words"}) == 3);
  CHECK(c.Value(Metric::kBranchPasses, {"mix", "programs"}) == Approx(0.63));
}

TEST_CASE("a job's counters go on when its sessions end and others begin", "[metrics]") {
  Counted c;
  const StreamId first = c.harness.Attach(HelloOptions{.world_size = 1});
  c.harness.Report(first, ReportOf(8, 2, 0.5));
  c.harness.Report(first, ReportOf(12, 3, 0.75));
  CHECK(c.Value(Metric::kBatchesDelivered, {"x"}) == 3);
  CHECK(c.Value(Metric::kConsumerWaitSeconds, {"x", "build"}) == 0.75);
  CHECK(c.Value(Metric::kConsumerWaitSeconds, {"x", "transfer"}) == 0);
  c.harness.Bye(first);
  const StreamId second = c.harness.Attach(HelloOptions{.world_size = 1, .nonce = 'b'});
  CHECK(c.Value(Metric::kBatchesDelivered, {"x"}) == 3);
  c.harness.Report(second, ReportOf(4, 1));
  CHECK(c.Value(Metric::kBatchesDelivered, {"x"}) == 4);
  CHECK(c.Value(Metric::kExamplesDelivered, {"x"}) == 16);
  CHECK(c.Value(Metric::kBatchBytes, {"x"}) == 400);
  CHECK(c.Value(Metric::kLastProgress, {"x"}) == static_cast<double>(c.harness.now.unix_seconds));
}

TEST_CASE("replicas of a rank read the same batches, which count once", "[metrics]") {
  Counted c;
  const StreamId a = c.harness.Attach(HelloOptions{.world_size = 1});
  const StreamId b = c.harness.Attach(HelloOptions{.world_size = 1, .nonce = 'b', .replica = 1});
  c.harness.Report(a, ReportOf(8, 2));
  c.harness.Report(b, ReportOf(8, 2));
  CHECK(c.Value(Metric::kBatchesDelivered, {"x"}) == 2);
}

TEST_CASE("what a session did before it came back to a dispatcher is not counted again",
          "[metrics]") {
  Counted c;
  const StreamId before = c.harness.Attach(HelloOptions{.world_size = 1});
  const SessionId session = c.harness.SessionOn(before);
  c.harness.Restart();
  c.seen = c.harness.updates.size();
  c.counters.WillApply(TermBegun{});
  v1::Hello hello = MakeHello(HelloOptions{.world_size = 1});
  ToProto(session, hello.mutable_session());
  hello.set_admitted(true);
  const StreamId again = c.harness.Attach(hello);
  c.harness.Report(again, ReportOf(40, 10));
  CHECK(c.Value(Metric::kBatchesDelivered, {"x"}) == 0);
  c.harness.Report(again, ReportOf(48, 12));
  CHECK(c.Value(Metric::kBatchesDelivered, {"x"}) == 2);
}

TEST_CASE("steps that consumers ask for and take back are counted, by kind and reason",
          "[metrics]") {
  Counted c;
  CHECK(c.Value(Metric::kAsks, {"first"}) == 0);
  CHECK(c.Value(Metric::kStepsMoved, {"refused"}) == 0);
  const StreamId a = c.harness.Attach(HelloOptions{.world_size = 1});
  const StreamId b = c.harness.Attach(HelloOptions{.world_size = 1, .nonce = 'b', .replica = 1});
  v1::Report report = ReportOf(0, 0);
  v1::Counters& counters = *report.mutable_counters();
  counters.set_asks_first(10);
  counters.set_asks_copy(2);
  counters.set_asks_moved(1);
  counters.set_moved_failed(4);
  counters.set_moved_drained(3);
  c.harness.Report(a, report);
  c.harness.Report(b, report);  // a replica asks too
  CHECK(c.Value(Metric::kAsks, {"first"}) == 20);
  CHECK(c.Value(Metric::kAsks, {"copy"}) == 4);
  CHECK(c.Value(Metric::kAsks, {"moved"}) == 2);
  CHECK(c.Value(Metric::kStepsMoved, {"failed"}) == 8);
  CHECK(c.Value(Metric::kStepsMoved, {"drained"}) == 6);
  counters.set_asks_first(7);  // a total never falls
  c.harness.Report(a, report);
  CHECK(c.Value(Metric::kAsks, {"first"}) == 20);
  counters.set_asks_first(9);
  c.harness.Report(a, report);
  CHECK(c.Value(Metric::kAsks, {"first"}) == 22);
}

TEST_CASE("the store's commits and errors are counted by kind", "[metrics]") {
  Counted c;
  c.counters.Committed(0.002, OkStatus());
  c.counters.Committed(0.5, ResourceExhausted("the disk is full"));
  const MetricSet metrics = c.Metrics();
  CHECK(metrics.histograms(Metric::kStoreCommitSeconds).at({"memory"}).count() == 2);
  CHECK(metrics.values(Metric::kStoreErrors).at({"memory", "resource_exhausted"}) == 1);
  CHECK(metrics.values(Metric::kStoreErrors).at({"memory", "unavailable"}) == 0);
}

TEST_CASE("jobs without sessions are forgotten beyond a number, the oldest first", "[metrics]") {
  DispatcherCounters counters("memory");
  const auto session = [&](std::uint64_t n) {
    SessionOpened opened;
    opened.id = SessionId({1, n});
    opened.hello.set_job("job" + std::to_string(n));
    opened.at = Time{seconds(n)};
    counters.WillApply(opened);
    if (n != 1) counters.WillApply(SessionEnded{opened.id});
  };
  for (std::uint64_t n = 1; n <= DispatcherCounters::kJobsKept + 10; ++n) session(n);
  MetricSet metrics;
  counters.AddTo(metrics, Time{seconds(10'000)}, 1.7e9);
  const auto& jobs = metrics.values(Metric::kBatchesDelivered);
  CHECK(jobs.size() == DispatcherCounters::kJobsKept);
  CHECK(jobs.contains({"job1"}));
  CHECK_FALSE(jobs.contains({"job2"}));
  CHECK(jobs.contains({"job" + std::to_string(DispatcherCounters::kJobsKept + 10)}));
}

}  // namespace
}  // namespace millrace
