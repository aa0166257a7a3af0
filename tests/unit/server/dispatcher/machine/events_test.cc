// The events that a dispatcher notes, as a status has them.
#include <catch2/catch.hpp>

#include "server/dispatcher/machine/status.h"
#include "tests/unit/server/dispatcher/machine/harness.h"

namespace millrace::test {
namespace {

using Catch::Contains;

std::vector<v1::Event> Events(Harness& h) {
  const v1::ServiceStatus status = BuildStatus(*h.dispatcher, h.options, h.now.time);
  return {status.events().begin(), status.events().end()};
}

std::vector<v1::Event> EventsOfKind(Harness& h, const std::string& kind) {
  std::vector<v1::Event> events = Events(h);
  std::erase_if(events, [&](const v1::Event& event) { return event.kind() != kind; });
  return events;
}

/// The only event of the kind.
v1::Event EventOfKind(Harness& h, const std::string& kind) {
  const std::vector<v1::Event> events = EventsOfKind(h, kind);
  CAPTURE(kind);
  REQUIRE(events.size() == 1);
  return events[0];
}

TEST_CASE("the first event says that a dispatcher began, or took over", "[events][restart]") {
  Harness h;
  v1::Event first = Events(h).at(0);
  CHECK(first.kind() == "dispatcher_began");
  CHECK(first.number() == 1);
  CHECK(first.text() == "This dispatcher began, with term 100.");
  h.AddWorker("w1");
  h.Attach(HelloOptions{});
  h.Restart();
  REQUIRE(Events(h).size() == 1);  // those of the earlier dispatcher are gone
  first = Events(h)[0];
  CHECK(first.kind() == "took_over");
  CHECK_THAT(first.text(), Contains("term 101") && Contains("jobs that had not ended: 1"));
}

TEST_CASE("a worker joins, is lost, is back, drains and leaves, with its name and age",
          "[events][work]") {
  Harness h;
  const StreamId worker = h.AddWorker("w1");
  CHECK(EventOfKind(h, "worker_joined").text() == "Worker w1 at w1:7701 joined.");
  CHECK(EventOfKind(h, "worker_joined").peer() == "w1");
  v1::WorkRequest request = h.workers[worker];
  h.StopWorker(worker);
  h.Advance(seconds(2));
  CHECK(EventsOfKind(h, "worker_lost").empty());
  h.Advance(seconds(2));
  CHECK_THAT(EventOfKind(h, "worker_lost").text(),
             Contains("Worker w1 at w1:7701 is lost: it has said nothing for"));
  h.Advance(seconds(7));
  CHECK(EventOfKind(h, "worker_lost").age_seconds() == Approx(8));
  h.Work(worker, request);
  CHECK(EventOfKind(h, "worker_returned").text() ==
        "Worker w1 at w1:7701 is back: it had said nothing for 11 s.");
  request.set_draining(true);
  h.Work(worker, request);
  h.Work(worker, request);
  CHECK(EventOfKind(h, "worker_draining").count() == 1);
  request.set_bye(true);
  h.Work(worker, request);
  CHECK(EventOfKind(h, "worker_left").text() == "Worker w1 at w1:7701 left in order.");
}

TEST_CASE("a worker that an operator drains is told of once", "[events][work]") {
  Harness h;
  const StreamId worker = h.AddWorker("w1");
  v1::DrainWorkerRequest drain;
  drain.set_worker("w1");
  Actions actions;
  REQUIRE(h.dispatcher->DrainWorker(drain, h.now, actions).ok());
  h.workers[worker].set_draining(true);
  h.Advance(seconds(1));
  CHECK_THAT(EventOfKind(h, "worker_draining").text(), Contains("an operator"));
  CHECK(EventOfKind(h, "worker_draining").count() == 1);
}

TEST_CASE("a worker that is lost for good is told of once, and its number is forgotten",
          "[events][work]") {
  Harness h;
  h.Break(h.AddWorker("w1"));
  h.Advance(seconds(120));
  CHECK(h.dispatcher->facts().workers().empty());
  CHECK(EventOfKind(h, "worker_lost").count() == 1);
}

TEST_CASE("steps that a consumer takes back are told of, with the worker that failed it",
          "[events][list]") {
  Harness h;
  h.AddWorker("w1");
  h.AddWorker("w2");
  const StreamId stream = h.Attach(HelloOptions{.world_size = 1});
  v1::Report report;
  report.mutable_next();
  report.mutable_counters()->set_moved_failed(3);
  h.Report(stream, report);  // an earlier dispatcher may have been told of these
  CHECK(EventsOfKind(h, "steps_moved").empty());
  report.mutable_counters()->set_moved_failed(5);
  report.mutable_counters()->set_moved_refused(1);
  v1::Failing& failing = *report.add_failing();
  ToProto(h.dispatcher->facts().FindWorkerByNonce("w1..............")->id,
          failing.mutable_worker());
  failing.set_remaining_seconds(3);
  failing.set_reason("connection refused");
  h.Report(stream, report);
  h.Report(stream, report);
  const v1::Event moved = EventOfKind(h, "steps_moved");
  CHECK(moved.count() == 3);
  CHECK(moved.job() == "x");
  CHECK(moved.peer() == "w1");
  CHECK(moved.text() ==
        "Rank 0 of job x at host7:4121 took back 3 steps of worker w1, which others build now: "
        "connection refused.");
}

TEST_CASE("steps of workers that drain are told of without a name", "[events][list]") {
  Harness h;
  const StreamId stream = h.Attach(HelloOptions{.world_size = 1});
  v1::Report report;
  report.mutable_next();
  h.Report(stream, report);
  report.mutable_counters()->set_moved_drained(1);
  h.Report(stream, report);
  CHECK(EventOfKind(h, "steps_moved").text() ==
        "Rank 0 of job x at host7:4121 took back 1 step of workers that drain, which others build "
        "now.");
}

TEST_CASE("a list that grows is told of, with its lengths and why", "[events][list]") {
  Harness h;
  const StreamId stream = h.Attach(HelloOptions{});
  for (char c = 'b'; c < 'm'; ++c) h.Attach(HelloOptions{.job = std::string(1, c), .nonce = c});
  for (int i = 0; i < 12; ++i) {
    const StreamId worker = h.AddWorker("w" + std::to_string(i));
    h.workers[worker].set_idle_threads(1);
    h.Work(worker, h.workers[worker]);
  }
  v1::Report report;
  report.mutable_next();
  report.set_asks(true);
  report.mutable_now()->set_cause(v1::WAIT_LEASE);
  h.Advance(std::chrono::milliseconds(250));
  h.Report(stream, report);
  const v1::Event grew = EventOfKind(h, "list_grew");
  CHECK(grew.job() == "x");
  CHECK(grew.peer() == "host7:4121");
  CHECK(
      grew.text() ==
      "Rank 0 of job x at host7:4121 may ask 16 workers, where it could ask 8: its loop waits, and "
      "workers outside its list are idle.");
}

TEST_CASE("a thousand workers that are lost at once are one event", "[events][work]") {
  Harness h;
  std::vector<StreamId> workers;
  for (int i = 0; i < 1000; ++i) workers.push_back(h.AddWorker("w" + std::to_string(i)));
  for (const StreamId worker : workers) h.StopWorker(worker);
  h.Advance(seconds(5));
  CHECK(EventOfKind(h, "worker_joined").count() == 1000);
  CHECK(EventOfKind(h, "worker_lost").count() == 1000);
  CHECK(Events(h).size() == 3);
}

TEST_CASE("workers and consumers that break the rules are told of", "[events][hostile]") {
  Harness h;
  v1::WorkRequest request = h.workers[h.AddWorker("w1")];
  request.mutable_self()->set_address("0.0.0.0:7701");
  h.Work(h.Open(true), request);
  CHECK_THAT(EventOfKind(h, "worker_refused").text(), Contains("advertise"));
  v1::Hello hello = MakeHello(HelloOptions{});
  hello.set_protocol(77);
  h.Attach(hello);
  CHECK_THAT(EventOfKind(h, "consumer_refused").text(), Contains("protocol"));
  CHECK(EventOfKind(h, "consumer_refused").job().empty());
}

TEST_CASE("a consumer without the right to its dataset is told of, but not to the job's owner",
          "[events]") {
  Harness h;
  h.Do(h.dispatcher->OnHelloRefused(MakeHello(HelloOptions{}),
                                    PermissionDenied("eve may not read dataset 'd'"), h.now));
  const v1::Event refused = EventOfKind(h, "consumer_refused");
  CHECK(refused.job().empty());
  CHECK(refused.peer() == "host7:4121");
  CHECK_THAT(refused.text(), Contains("Rank 0 of job x") && Contains("may not read"));
}

TEST_CASE("one worker more than the limit is told of, with its name", "[events][work]") {
  DispatcherOptions options;
  options.max_workers = 1;
  Harness h(options);
  h.AddWorker("w1");
  h.AddWorker("w2");
  CHECK_THAT(EventOfKind(h, "worker_refused").text(), Contains("Worker w2 at w2:7701 was refused"));
}

TEST_CASE("a job begins once, and ends when its record says so", "[events]") {
  Harness h;
  h.AddWorker("w1");
  const StreamId a = h.Attach(HelloOptions{.nonce = 'a'});
  const StreamId b = h.Attach(HelloOptions{.rank = 1, .nonce = 'b'});
  const v1::Event began = EventOfKind(h, "job_began");
  CHECK(began.count() == 1);
  CHECK(began.job() == "x");
  CHECK_THAT(began.text(), Contains("Job x began with world size 2"));
  CHECK(EventsOfKind(h, "consumer_resumed").empty());
  h.Bye(a);
  CHECK(EventsOfKind(h, "job_ended").empty());
  h.Bye(b);
  CHECK(EventOfKind(h, "job_ended").text() == "Job x ended: it has no consumer any more.");
}

TEST_CASE("a consumer that falls silent is lost, and comes back", "[events]") {
  Harness h;
  const HelloOptions options{.world_size = 1};
  const StreamId stream = h.Attach(options);
  const SessionId session = h.SessionOn(stream);
  h.Break(stream);
  h.Advance(seconds(11));
  const v1::Event lost = EventOfKind(h, "consumer_lost");
  CHECK(lost.job() == "x");
  CHECK(lost.peer() == "host7:4121");
  CHECK_THAT(lost.text(), Contains("Rank 0 of job x at host7:4121 is lost") && Contains("10 s"));
  v1::Hello again = MakeHello(options);
  ToProto(session, again.mutable_session());
  again.set_admitted(true);
  h.Attach(again);
  CHECK(EventOfKind(h, "consumer_resumed").text() ==
        "Rank 0 of job x at host7:4121 came back to this dispatcher.");
}

TEST_CASE("a consumer with a cursor resumes at its place", "[events]") {
  Harness h;
  const v1::Welcome welcome = *h.WelcomeOn(h.Attach(HelloOptions{.job = "before"}));
  v1::Hello hello = MakeHello(HelloOptions{.job = "after", .start = {1, 8}, .nonce = 'b'});
  hello.set_cursor_fingerprint(welcome.fingerprint());
  h.Attach(hello);
  CHECK_THAT(EventOfKind(h, "consumer_resumed").text(),
             Contains("Rank 0 of job after at host7:4121 resumed at " + Position{1, 8}.ToString()));
  hello.set_job("other");
  hello.set_nonce(std::string(16, 'c'));
  hello.mutable_pipeline()->set_yaml(Yaml("seed=9\n"));
  h.Attach(hello);
  CHECK_THAT(EventOfKind(h, "pipeline_refused").text(),
             Contains("Rank 0 of job other") && Contains("cursor"));
}

TEST_CASE("a pipeline that cannot be compiled is refused", "[events][plans]") {
  Harness h;
  h.Attach(HelloOptions{.yaml = "error=no such key\n"});
  const v1::Event refused = EventOfKind(h, "pipeline_refused");
  CHECK(refused.job() == "x");
  CHECK_THAT(refused.text(), Contains("no such key"));
}

TEST_CASE("a consumer that is taken over, or waits in vain, is told of", "[events]") {
  Harness h;
  h.Attach(HelloOptions{.nonce = 'a'});
  const StreamId second = h.Attach(HelloOptions{.where = "host8:1", .nonce = 'b'});
  CHECK_THAT(EventOfKind(h, "consumer_replaced").text(),
             Contains("host7:4121 was replaced") && Contains("taken over by host8:1"));
  const StreamId third = h.Attach(HelloOptions{.world_size = 3, .nonce = 'c'});
  h.talking = {second, third};
  h.Advance(seconds(61));
  CHECK_THAT(EventOfKind(h, "consumer_refused").text(), Contains("waited 60 s"));
}

TEST_CASE("a job that an operator ends is told of", "[events]") {
  Harness h;
  h.Attach(HelloOptions{});
  v1::EndJobRequest request;
  request.set_job("x");
  Actions actions;
  REQUIRE(h.dispatcher->EndJob(request, h.now, actions).ok());
  h.Do(std::move(actions));
  CHECK(EventOfKind(h, "job_turned_out").text() ==
        "Job x was ended by an operator, with 1 sessions.");
  CHECK(EventOfKind(h, "job_ended").job() == "x");
}

TEST_CASE("a job that cannot go on fails as one, whatever its ranks", "[events]") {
  Harness h;
  const StreamId worker = h.AddWorker("w1");
  const StreamId a = h.Attach(HelloOptions{.nonce = 'a'});
  h.Attach(HelloOptions{.rank = 1, .nonce = 'b'});
  v1::WorkRequest& request = h.workers[worker];
  request.mutable_plans(0)->set_phase(v1::FAILED);
  request.mutable_plans(0)->set_error("file a.bin is damaged");
  request.mutable_plans(0)->set_error_code(static_cast<std::uint32_t>(StatusCode::kDataLoss));
  h.Work(worker, request);
  h.Work(worker, request);
  const v1::Event plan = EventOfKind(h, "plan_failed");
  CHECK(plan.count() == 1);
  CHECK(plan.peer() == "w1");
  CHECK_THAT(plan.text(), Contains("a.bin is damaged"));
  h.ReportAt(a, {0, 0});
  CHECK(EventOfKind(h, "job_failed").count() == 1);
  CHECK_THAT(EventOfKind(h, "job_failed").text(), Contains("a.bin"));
  CHECK(EventsOfKind(h, "consumer_failed").empty());
}

TEST_CASE("a consumer whose report makes no sense is closed with an error", "[events][hostile]") {
  Harness h;
  h.ReportAt(h.Attach(HelloOptions{}), {0, 3});
  CHECK_THAT(EventOfKind(h, "consumer_failed").text(), Contains("where no step lies"));
}

TEST_CASE("a store that fails is told of once, and that it works again once", "[events]") {
  Harness h;
  h.store_error = ResourceExhausted("disk full");
  const StreamId a = h.Attach(HelloOptions{.job = "x", .nonce = 'a'});
  const StreamId b = h.Attach(HelloOptions{.job = "y", .nonce = 'b'});
  h.talking = {a, b};
  h.Advance(seconds(30));
  CHECK(h.commits_done > 10);
  CHECK(EventOfKind(h, "store_failed").count() == 1);
  CHECK_THAT(EventOfKind(h, "store_failed").text(), Contains("disk full"));
  CHECK(EventsOfKind(h, "store_works").empty());
  h.store_error = OkStatus();
  h.Advance(seconds(10));
  CHECK(EventOfKind(h, "store_works").count() == 1);
  CHECK(EventsOfKind(h, "store_failed").size() == 1);
}

TEST_CASE("datasets that fail are told of, here and at workers, until the error changes",
          "[events][dataset]") {
  Harness h;
  v1::DatasetState dataset;
  dataset.set_error("file a.bin is cut off");
  h.Do(h.dispatcher->OnDataset("stdlib", dataset, h.now));
  h.Do(h.dispatcher->OnDataset("stdlib", dataset, h.now));
  CHECK(EventOfKind(h, "dataset_failed").count() == 1);
  h.Advance(seconds(11));
  const StreamId worker = h.AddWorker("w1");
  (*h.workers[worker].mutable_datasets())["stdlib"].set_error("file b.bin has changed");
  h.Advance(seconds(2));
  const auto events = EventsOfKind(h, "dataset_failed");
  REQUIRE(events.size() == 2);
  CHECK(events[1].count() == 1);
  CHECK(events[1].peer() == "w1");
  CHECK_THAT(events[1].text(), Contains("dataset stdlib: file b.bin has changed"));
}

TEST_CASE("a worker with another dataset is told of, with the first file that differs",
          "[events][dataset]") {
  Harness h;
  v1::DatasetState here;
  here.set_digest(DatasetDigest());
  v1::FileEntry& file = *here.add_file_list();
  file.set_name("a.bin");
  file.set_size(10);
  h.Do(h.dispatcher->OnDataset("stdlib", here, h.now));
  const StreamId worker = h.AddWorker("w1");
  v1::WorkRequest request = h.workers[worker];
  v1::DatasetState& there = (*request.mutable_datasets())["stdlib"];
  there.set_digest(std::string(32, '0'));
  *there.add_file_list() = file;
  there.mutable_file_list(0)->set_size(11);
  h.Work(worker, request);
  const v1::Event differs = EventOfKind(h, "digests_differ");
  CHECK(differs.peer() == "w1");
  CHECK_THAT(differs.text(), Contains("another dataset stdlib") && Contains("11 bytes"));
}

TEST_CASE("two copies of a batch that differ are told of", "[events]") {
  Harness h;
  const StreamId stream = h.Attach(HelloOptions{.world_size = 1});
  v1::Report report;
  ToProto(Position{0, 0}, report.mutable_next());
  h.Report(stream, report);
  report.mutable_counters()->set_duplicate_mismatches(2);
  h.Report(stream, report);
  h.Report(stream, report);
  const v1::Event differ = EventOfKind(h, "batches_differ");
  CHECK(differ.count() == 2);
  CHECK(differ.job() == "x");
}

TEST_CASE("what a session's first report counts was told before", "[events][restart]") {
  Harness h;
  v1::Report report;
  ToProto(Position{0, 0}, report.mutable_next());
  report.mutable_counters()->set_duplicate_mismatches(2);
  report.mutable_tuning()->add_decisions()->set_outcome("kept");
  h.Report(h.Attach(HelloOptions{}), report);
  CHECK(EventsOfKind(h, "batches_differ").empty());
  CHECK(EventsOfKind(h, "tuning").empty());
}

TEST_CASE("a decision of tuning is told once it is judged", "[events][tune]") {
  Harness h;
  const StreamId worker = h.AddWorker("w1");
  v1::WorkRequest request = h.workers[worker];
  request.mutable_tuning()->add_settings()->set_name("threads");
  h.Work(worker, request);
  v1::TuneDecision& decision = *request.mutable_tuning()->add_decisions();
  decision.set_number(1);
  decision.set_setting("threads");
  decision.set_from(3);
  decision.set_to(4);
  decision.set_outcome("trying");
  h.Work(worker, request);
  CHECK(EventsOfKind(h, "tuning").empty());
  decision.set_outcome("kept");
  h.Work(worker, request);
  h.Work(worker, request);
  const v1::Event tuning = EventOfKind(h, "tuning");
  CHECK(tuning.count() == 1);
  CHECK_THAT(tuning.text(),
             Contains("Worker w1 at w1:7701: nobody waited: threads 3 -> 4") && Contains("kept."));

  const StreamId stream = h.Attach(HelloOptions{});
  v1::Report report;
  ToProto(Position{0, 0}, report.mutable_next());
  report.mutable_tuning()->add_settings()->set_name("threads");
  h.Report(stream, report);
  *report.mutable_tuning()->add_decisions() = decision;
  h.Report(stream, report);
  const auto events = EventsOfKind(h, "tuning");
  REQUIRE(events.size() == 2);
  CHECK(events[1].job() == "x");
  CHECK_THAT(events[1].text(), Contains("Rank 0 of job x"));
}

TEST_CASE("a pause of the dispatcher itself is told of, and is nobody's loss", "[events][time]") {
  Harness h;
  h.AddWorker("w1");
  h.Pause(seconds(30));
  CHECK_THAT(EventOfKind(h, "paused").text(), Contains("stood still for"));
  CHECK(EventOfKind(h, "paused").age_seconds() == 0);
  CHECK(EventsOfKind(h, "worker_lost").empty());
}

TEST_CASE("a term that is over is told of", "[events]") {
  Harness h;
  v1::Hello hello = MakeHello(HelloOptions{});
  hello.set_highest_term(101);
  h.Attach(hello);
  CHECK_THAT(EventOfKind(h, "term_over").text(), Contains("has seen term 101"));
}

TEST_CASE("a worker that cannot measure columns is told of", "[events][columns]") {
  Harness h;
  const StreamId worker = h.AddWorker("w1");
  h.talking = {h.Attach(HelloOptions{.yaml = Yaml("measures=length\n")})};
  h.Advance(seconds(1));
  v1::WorkRequest request = h.workers[worker];
  REQUIRE(h.LastWork(worker).measure_size() == 1);
  v1::Measured& measured = *request.add_measured();
  *measured.mutable_set() = h.LastWork(worker).measure(0).set();
  measured.set_error_code(static_cast<std::uint32_t>(StatusCode::kInternal));
  measured.set_error("its code fails");
  h.Work(worker, request);
  CHECK_THAT(EventOfKind(h, "measuring_failed").text(),
             Contains("Worker w1") && Contains("its code fails"));
}

}  // namespace
}  // namespace millrace::test
