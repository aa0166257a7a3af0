// Tests of what operators ask for, and of what status tells them.
#include <catch2/catch.hpp>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "server/dispatcher/machine/status.h"
#include "tests/unit/server/dispatcher/machine/harness.h"

namespace millrace::test {
namespace {

using Catch::Contains;

v1::ServiceStatus StatusOf(const Harness& h) {
  return BuildStatus(*h.dispatcher, h.options, h.now.time);
}

Result<v1::DrainWorkerResponse> DrainWorker(Harness& h, const std::string& worker) {
  v1::DrainWorkerRequest request;
  request.set_worker(worker);
  Actions actions;
  auto result = h.dispatcher->DrainWorker(request, h.now, actions);
  h.Do(std::move(actions));
  return result;
}

Result<v1::UndrainWorkerResponse> UndrainWorker(Harness& h, const std::string& worker) {
  v1::UndrainWorkerRequest request;
  request.set_worker(worker);
  Actions actions;
  auto result = h.dispatcher->UndrainWorker(request, h.now, actions);
  h.Do(std::move(actions));
  return result;
}

Result<v1::EndJobResponse> EndJob(Harness& h, const std::string& job) {
  v1::EndJobRequest request;
  request.set_job(job);
  Actions actions;
  auto result = h.dispatcher->EndJob(request, h.now, actions);
  h.Do(std::move(actions));
  return result;
}

TEST_CASE("a status that is built in steps is that of one step", "[status]") {
  Harness h;
  std::vector<StreamId> workers;
  for (int i = 0; i < 3; ++i) workers.push_back(h.AddWorker("w" + std::to_string(i)));
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    h.Attach({.rank = rank, .nonce = static_cast<char>('a' + rank)});
  }
  StatusBuild build(*h.dispatcher, h.options);
  int steps = 1;
  while (!build.Step(2, h.now.time)) ++steps;
  CHECK(steps == 3);
  const v1::ServiceStatus status = build.Take();
  CHECK(status.workers_size() == 3);
  CHECK(status.consumers_size() == 2);
  CHECK(status.DebugString() == StatusOf(h).DebugString());
}

TEST_CASE("a worker that goes while a status is built is missing, and nothing else", "[status]") {
  Harness h;
  std::vector<StreamId> workers;
  for (int i = 0; i < 4; ++i) workers.push_back(h.AddWorker("w" + std::to_string(i)));
  const std::string first = StatusOf(h).workers(0).name();
  StatusBuild build(*h.dispatcher, h.options);
  REQUIRE_FALSE(build.Step(1, h.now.time));
  h.Break(workers[0]);
  h.Break(workers[2]);
  h.Advance(seconds(60));
  h.AddWorker("late");
  while (!build.Step(1, h.now.time)) {
  }
  const v1::ServiceStatus status = build.Take();
  std::vector<std::string> names;
  for (const v1::WorkerStatus& worker : status.workers()) names.push_back(worker.name());
  CHECK(names.front() == first);
  CHECK(names.back() == "late");
}

TEST_CASE("a drained worker is in no list and is told to drain", "[operator]") {
  Harness h;
  const StreamId worker = h.AddWorker("w1");
  h.AddWorker("w2");
  REQUIRE(DrainWorker(h, GENERATE("w1", "w1:7701")).ok());
  CHECK(h.LastWork(worker).drain());
  const StreamId stream = h.Attach(HelloOptions{});
  h.ReportAt(stream, {0, 0});
  CHECK(h.ListOn(stream) == std::vector<std::string>{"w2"});
  CHECK(StatusOf(h).workers(0).state() == "draining");
}

TEST_CASE("a drain is taken back until the worker says that it does not drain", "[operator]") {
  Harness h;
  const StreamId worker = h.AddWorker("w1");
  const StreamId stream = h.Attach(HelloOptions{});
  h.talking = {stream};
  CHECK(UndrainWorker(h, "w9").status().code() == StatusCode::kNotFound);
  CHECK(UndrainWorker(h, "w1").status().code() == StatusCode::kFailedPrecondition);
  REQUIRE(DrainWorker(h, "w1").ok());
  h.workers[worker].set_draining(true);
  h.Advance(seconds(1));
  CHECK(h.ListOn(stream).empty());
  REQUIRE(UndrainWorker(h, "w1").ok());
  CHECK(h.LastWork(worker).undrain());
  CHECK_FALSE(h.LastWork(worker).drain());
  h.Advance(seconds(2));  // its process is about to end: it goes on draining
  CHECK(h.LastWork(worker).undrain());
  CHECK(StatusOf(h).workers(0).state() == "draining");
  CHECK(h.ListOn(stream).empty());
  h.workers[worker].set_draining(false);
  h.Advance(seconds(2));
  CHECK(StatusOf(h).workers(0).state() == "ready");
  CHECK(h.ListOn(stream) == std::vector<std::string>{"w1"});
  const v1::ServiceStatus status = StatusOf(h);
  CHECK(std::count_if(status.events().begin(), status.events().end(),
                      [](const v1::Event& e) { return e.kind() == "worker_undrained"; }) == 1);
  // A drain that comes later is not undone by what was said before.
  REQUIRE(DrainWorker(h, "w1").ok());
  CHECK(h.LastWork(worker).drain());
  CHECK_FALSE(h.LastWork(worker).undrain());
}

TEST_CASE(
    "a dataset is as unverified as at the worker that has most to do, and in memory as in "
    "all of them together",
    "[operator]") {
  Harness h;
  v1::DatasetState here;
  here.set_digest(DatasetDigest());
  here.set_unverified(1);  // a dispatcher compares no contents
  h.Do(h.dispatcher->OnDataset("stdlib", here, h.now));
  h.Attach(HelloOptions{});
  CHECK(StatusOf(h).datasets().at("stdlib").unverified() == 0);
  for (const auto& [name, share] : {std::pair("w1", 0.25), std::pair("w2", 0.5)}) {
    const StreamId worker = h.AddWorker(name);
    (*h.workers[worker].mutable_datasets())["stdlib"].set_unverified(share);
    (*h.workers[worker].mutable_datasets())["stdlib"].set_in_memory_bytes(7);
    h.Work(worker, h.workers[worker]);
  }
  CHECK(StatusOf(h).datasets().at("stdlib").unverified() == 0.5);
  CHECK(StatusOf(h).datasets().at("stdlib").in_memory_bytes() == 14);
}

TEST_CASE("draining an unknown worker names those there are", "[operator]") {
  Harness h;
  h.AddWorker("w1");
  const auto result = DrainWorker(h, "w9");
  CHECK(result.status().code() == StatusCode::kNotFound);
  CHECK_THAT(result.status().message(), Contains("'w9'") && Contains("w1 (w1:7701"));
}

TEST_CASE("a worker that took the place of a killed one is the one that is meant", "[operator]") {
  Harness h;
  const StreamId killed = h.AddWorker("w1");
  h.Break(killed);
  const StreamId present = h.AddWorker("w1");
  REQUIRE(DrainWorker(h, "w1").ok());
  CHECK(h.LastWork(present).drain());
}

TEST_CASE("ending a job turns all its sessions out, also those that are away", "[operator]") {
  Harness h;
  const StreamId live = h.Attach(HelloOptions{.rank = 0, .nonce = 'a'});
  const HelloOptions away_options{.rank = 1, .nonce = 'b'};
  const StreamId away = h.Attach(away_options);
  const StreamId waiting = h.Attach(HelloOptions{.world_size = 8, .nonce = 'c'});
  h.Break(away);
  const auto result = EndJob(h, "x");
  REQUIRE(result.ok());
  CHECK(result->sessions() == 3);
  CHECK(h.ClosedWith(live) == Aborted("job x was ended by an operator"));
  CHECK(h.ClosedWith(waiting).code() == StatusCode::kAborted);
  CHECK(h.disk["x"].ended());

  v1::Hello back = MakeHello(away_options);
  ToProto(h.SessionOn(away), back.mutable_session());
  back.set_admitted(true);
  CHECK(h.ClosedWith(h.Attach(back)).code() == StatusCode::kAborted);
  CHECK(h.WelcomeOn(h.Attach(HelloOptions{.nonce = 'd'})) != nullptr);
}

TEST_CASE("ending a job turns out who has not heard its number yet", "[operator]") {
  Harness h;
  h.hold_commits = true;
  h.Break(h.Attach(HelloOptions{.nonce = 'a'}));  // before it was told to wait
  REQUIRE(EndJob(h, "x").ok());
  h.hold_commits = false;
  h.AnswerCommits();
  CHECK(h.ClosedWith(h.Attach(HelloOptions{.nonce = 'a'})) ==
        Aborted("job x was ended by an operator"));
}

TEST_CASE("one that has stepped down ends and drains nothing, and says so", "[operator][term]") {
  Harness h;
  h.AddWorker("w1");
  const StreamId stream = h.Attach(HelloOptions{});
  v1::Hello peer = MakeHello(HelloOptions{.job = "y", .nonce = 'z'});
  peer.set_highest_term(h.dispatcher->facts().term() + 1);
  h.Attach(peer);
  REQUIRE_FALSE(h.dispatcher->stepped_down().ok());
  Actions actions;
  v1::EndJobRequest end;
  end.set_job("x");
  CHECK(h.dispatcher->EndJob(end, h.now, actions).status() == h.dispatcher->stepped_down());
  v1::DrainWorkerRequest drain;
  drain.set_worker("w1");
  CHECK(h.dispatcher->DrainWorker(drain, h.now, actions).status() == h.dispatcher->stepped_down());
  CHECK(actions.empty());
  CHECK(h.ClosedWith(stream).code() == StatusCode::kUnavailable);
}

TEST_CASE("ending an unknown job names those there are", "[operator]") {
  Harness h;
  h.Attach(HelloOptions{});
  const auto result = EndJob(h, "y");
  CHECK(result.status().code() == StatusCode::kNotFound);
  CHECK_THAT(result.status().message(), Contains("jobs are x"));
}

TEST_CASE("status computes rates of the last minute, progress and what is left", "[status]") {
  Harness h;
  h.AddWorker("w1");
  const StreamId stream = h.Attach(HelloOptions{});
  h.talking = {stream};
  v1::Report report;
  for (std::uint64_t i = 0; i <= 4; ++i) {
    ToProto(Position{0, 8 * i}, report.mutable_next());
    report.mutable_counters()->set_batches(100 + i);
    report.mutable_counters()->set_examples(400 + 4 * i);
    report.mutable_counters()->set_bytes(1000 * i);
    report.mutable_counters()->set_tokens(50 + 20 * i);
    report.mutable_counters()->clear_pieces_lost();
    v1::LostPieces& lost = *report.mutable_counters()->add_pieces_lost();
    lost.set_reason(v1::EXCLUDED);
    lost.set_pieces(2 * i);
    auto* waited = report.mutable_counters();
    waited->clear_waited();
    waited->add_waited()->set_seconds(7 + 2.0 * static_cast<double>(i));
    auto* dropped = report.mutable_counters();
    dropped->clear_dropped();
    dropped->add_dropped()->set_reason(v1::TOO_LARGE);
    dropped->mutable_dropped(0)->set_examples(3);
    dropped->add_dropped()->set_reason(
        static_cast<v1::DropReason>(17));  // a reason that only a newer worker knows
    dropped->mutable_dropped(1)->set_examples(2);
    h.Report(stream, report);
    h.Advance(seconds(10));
  }
  const v1::ServiceStatus status = StatusOf(h);
  REQUIRE(status.jobs_size() == 1);
  const v1::JobStatus& job = status.jobs(0);
  CHECK(job.state() == "live");
  CHECK(job.batches_per_second() == Approx(0.1));
  CHECK(job.examples_per_second() == Approx(0.4));
  CHECK(job.bytes_per_second() == Approx(100));
  CHECK(job.tokens_per_second() == Approx(2));
  CHECK(job.tokens() == 130);
  REQUIRE(job.pieces_lost_size() == 1);
  CHECK(job.pieces_lost(0).pieces() == 8);
  CHECK(job.pieces_lost(0).name() == "excluded");
  CHECK(job.step() == 4);
  CHECK(job.steps_per_epoch() == 10);
  CHECK(job.progress() == Approx(0.4));
  CHECK(job.eta_seconds() == Approx(60));
  REQUIRE(job.dropped_size() == 2);
  CHECK(job.dropped(0).examples() == 3);
  CHECK(job.dropped(0).name() == "too_large");
  CHECK(static_cast<int>(job.dropped(1).reason()) == 17);
  CHECK(job.dropped(1).examples() == 2);
  CHECK(job.dropped(1).name().empty());
  CHECK(job.started_unix_seconds() == 1'700'000'000);
  REQUIRE(status.consumers_size() == 1);
  CHECK(status.consumers(0).waited_seconds() == Approx(15));
  CHECK(status.consumers(0).waited_last_minute_seconds() == Approx(8));
}

TEST_CASE("status shows what a consumer grants and which workers failed it", "[status]") {
  Harness h;
  h.AddWorker("w1");
  const StreamId stream = h.Attach(HelloOptions{});
  v1::Report report;
  ToProto(Position{0, 0}, report.mutable_next());
  h.Report(stream, report);
  CHECK(!StatusOf(h).consumers(0).has_grants());  // a consumer of an older version
  report.mutable_grants()->set_window(12);
  report.set_used(5);
  report.set_asked(40);
  report.set_built(7);
  report.set_due_seconds(1.5);
  report.mutable_grants()->set_credit_bytes(4096);
  v1::Failing& failing = *report.add_failing();
  failing.mutable_worker()->set_n(77);
  failing.set_reason("connection refused");
  failing.set_remaining_seconds(3);
  h.Report(stream, report);
  const v1::ServiceStatus status = StatusOf(h);
  const v1::ConsumerStatus& consumer = status.consumers(0);
  CHECK(consumer.list() == 1);
  CHECK(consumer.list_used() == 5);
  CHECK(consumer.asked() == 40);
  CHECK(consumer.built() == 7);
  CHECK(consumer.due_seconds() == 1.5);
  CHECK(consumer.grants().window() == 12);
  CHECK(consumer.grants().credit_bytes() == 4096);
  REQUIRE(consumer.failing_size() == 1);
  CHECK(consumer.failing(0).worker().n() == 77);
  CHECK(consumer.failing(0).reason() == "connection refused");
}

/// A tuning whose one decision was made 4 s ago.
v1::Tuning ATuning() {
  v1::Tuning tuning;
  tuning.add_settings()->set_name("threads");
  v1::TuneDecision& decision = *tuning.add_decisions();
  decision.set_setting("threads");
  decision.set_age_seconds(4);
  return tuning;
}

TEST_CASE("status remembers how workers and consumers are tuned, and how long ago",
          "[status][tune]") {
  Harness h;
  const StreamId worker = h.AddWorker("w1");
  const StreamId stream = h.Attach(HelloOptions{.world_size = 1});
  v1::WorkRequest told = h.workers[worker];
  *told.mutable_tuning() = ATuning();
  h.Work(worker, told);
  v1::Report report;
  ToProto(Position{0, 0}, report.mutable_next());
  *report.mutable_tuning() = ATuning();
  h.Report(stream, report);
  h.talking = {stream};
  h.Advance(seconds(10));  // other reports come, which do not have it
  const v1::ServiceStatus status = StatusOf(h);
  for (const v1::Tuning& tuning : {status.workers(0).tuning(), status.consumers(0).tuning()}) {
    REQUIRE(tuning.decisions_size() == 1);
    CHECK(tuning.decisions(0).age_seconds() == Approx(14));
    CHECK(tuning.settings(0).name() == "threads");
  }
}

TEST_CASE("a tuning that no process has is refused", "[work][report][tune][hostile]") {
  v1::Tuning tuning = ATuning();
  SECTION("too many decisions") {
    while (tuning.decisions_size() <= 64) tuning.add_decisions();
  }
  SECTION("too many settings") {
    while (tuning.settings_size() <= 64) tuning.add_settings();
  }
  SECTION("a long name") { tuning.mutable_settings(0)->set_name(std::string(257, 'x')); }
  SECTION("a line break") { tuning.mutable_decisions(0)->set_waited_for("a\nb"); }
  Harness h;
  const StreamId worker = h.AddWorker("w1");
  const StreamId stream = h.Attach(HelloOptions{.world_size = 1});
  v1::WorkRequest told = h.workers[worker];
  *told.mutable_tuning() = tuning;
  h.Work(worker, told);
  CHECK(h.ClosedWith(worker).code() == StatusCode::kInvalidArgument);
  v1::Report report;
  ToProto(Position{0, 0}, report.mutable_next());
  *report.mutable_tuning() = tuning;
  h.Report(stream, report);
  CHECK_THAT(h.ClosedWith(stream).message(), Contains("rank 0 of job x"));
}

TEST_CASE("figures of more than a minute ago leave the rates", "[status]") {
  Harness h;
  const StreamId stream = h.Attach(HelloOptions{});
  h.talking = {stream};
  v1::Report report;
  ToProto(Position{0, 0}, report.mutable_next());
  report.mutable_counters()->set_batches(0);
  h.Report(stream, report);
  h.Advance(seconds(5));
  report.mutable_counters()->set_batches(1000);
  for (int i = 0; i < 90; ++i) {
    h.Report(stream, report);
    h.Advance(seconds(1));
  }
  CHECK(StatusOf(h).jobs(0).batches_per_second() == 0);
  CHECK(h.dispatcher->facts().sessions().begin()->second.samples.size() < 20);
}

TEST_CASE("a job's place is its slowest rank's, and replicas count once", "[status]") {
  Harness h;
  const StreamId fast = h.Attach(HelloOptions{.rank = 0, .nonce = 'a'});
  const StreamId slow = h.Attach(HelloOptions{.rank = 1, .nonce = 'b'});
  const StreamId copy = h.Attach(HelloOptions{.rank = 0, .nonce = 'c', .replica = 1});
  h.talking = {fast, slow, copy};
  v1::Report report;
  for (const std::uint64_t batches : {0, 10}) {
    for (const StreamId s : {fast, slow, copy}) {
      ToProto(Position{0, s == slow ? 8u : 16u}, report.mutable_next());
      report.mutable_counters()->set_batches(batches);
      h.Report(s, report);
    }
    h.Advance(seconds(10));
  }
  const v1::ServiceStatus status = StatusOf(h);
  CHECK(status.jobs(0).step() == 1);
  CHECK(status.jobs(0).batches_per_second() == Approx(2));
}

TEST_CASE("status names what waiting, live and kept jobs wait for", "[status]") {
  Harness h;
  h.Bye(h.Attach(HelloOptions{.job = "done", .nonce = 'a'}));
  const StreamId live = h.Attach(HelloOptions{.job = "live", .nonce = 'b'});
  h.ReportAt(live, {0, 0});
  h.hold_compiles = true;
  h.Attach(HelloOptions{.job = "waits", .yaml = Yaml("seed=9\n"), .nonce = 'c'});
  const v1::ServiceStatus status = StatusOf(h);
  std::map<std::string, v1::JobStatus> jobs;
  for (const auto& job : status.jobs()) jobs[job.name()] = job;
  CHECK(jobs["done"].state() == "ended");
  CHECK(jobs["live"].state() == "live");
  CHECK_THAT(jobs["live"].why(), Contains("no worker is connected"));
  CHECK(jobs["waits"].state() == "waiting");
  CHECK_THAT(jobs["waits"].why(), Contains("plan is being compiled"));
}

TEST_CASE("status says that the store fails and which workers prepare or are silent", "[status]") {
  Harness h;
  const StreamId worker = h.AddWorker("w1");
  h.workers[worker].mutable_plans(0)->set_phase(v1::COMPILING);
  h.Work(worker, h.workers[worker]);
  h.store_error = Internal("disk full");
  h.Attach(HelloOptions{});
  CHECK(StatusOf(h).store_error() == "disk full");
  CHECK(StatusOf(h).workers(0).state() == "preparing");
  CHECK_THAT(StatusOf(h).workers(0).why(), Contains("compiling plan"));
  h.StopWorker(worker);
  h.Advance(seconds(4));
  CHECK(StatusOf(h).workers(0).state() == "silent");
}

}  // namespace
}  // namespace millrace::test
