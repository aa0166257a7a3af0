// Tests of what is kept and shown of how jobs end.
#include "server/dispatcher/machine/job_end.h"

#include <catch2/catch.hpp>

#include "server/dispatcher/machine/status.h"
#include "tests/unit/server/dispatcher/machine/harness.h"

namespace millrace::test {
namespace {

using Catch::Contains;

/// The only job of a dispatcher. It has 10 steps of 8 examples an epoch, unless it says otherwise.
v1::JobStatus JobOf(Harness& h) {
  const v1::ServiceStatus status = BuildStatus(*h.dispatcher, h.options, h.now.time);
  REQUIRE(status.jobs_size() == 1);
  return status.jobs(0);
}

void EndJob(Harness& h, const std::optional<std::string>& owner, const std::string& who) {
  v1::EndJobRequest request;
  request.set_job("x");
  Actions actions;
  REQUIRE(h.dispatcher->EndJob(request, h.now, actions, owner, who).ok());
  h.Do(std::move(actions));
}

void ByeWith(Harness& h, StreamId stream, const std::string& error) {
  v1::AttachRequest request;
  request.set_bye(true);
  request.set_error(error);
  h.Send(stream, request);
}

TEST_CASE("a job whose ranks have read all that they want is completed", "[job_end]") {
  Harness h;
  const StreamId a = h.Attach(HelloOptions{.rank = 0, .nonce = 'a', .epochs = 2});
  const StreamId b = h.Attach(HelloOptions{.rank = 1, .nonce = 'b', .epochs = 2});
  h.ReportAt(a, {2, 0});
  h.ReportAt(b, {2, 0});
  h.Bye(a);
  h.Bye(b);
  const v1::JobStatus job = JobOf(h);
  CHECK(job.state() == "ended");
  CHECK(job.outcome() == "completed");
  CHECK(job.step() == 10);
  CHECK(job.steps_per_epoch() == 10);
  CHECK(job.progress() == 1);
  CHECK(job.next().epoch() == 2);
  CHECK(job.why().empty());
}

TEST_CASE("a job is left if a rank is closed before the epochs that it wants", "[job_end]") {
  Harness h;
  const StreamId a = h.Attach(HelloOptions{.rank = 0, .nonce = 'a', .epochs = 2});
  const StreamId b = h.Attach(HelloOptions{.rank = 1, .nonce = 'b', .epochs = 2});
  h.ReportAt(a, {2, 0});
  h.ReportAt(b, {1, 16});
  h.Bye(a);
  h.Bye(b);
  const v1::JobStatus job = JobOf(h);
  CHECK(job.outcome() == "left");
  CHECK(job.why() == "rank 1 of job x was closed by its user before the end");
  CHECK(job.step() == 2);
  CHECK(job.progress() == Approx(0.2));
}

TEST_CASE("a job without an end is completed if it is closed between two epochs", "[job_end]") {
  Harness h;
  const StreamId stream = h.Attach(HelloOptions{});
  h.ReportAt(stream, {3, 0});
  h.Bye(stream);
  CHECK(JobOf(h).outcome() == "completed");
}

TEST_CASE("a job that nothing was read of is left", "[job_end]") {
  Harness h;
  h.Bye(h.Attach(HelloOptions{}));
  CHECK(JobOf(h).outcome() == "left");
  CHECK(JobOf(h).step() == 0);
}

TEST_CASE("a job that somebody ends says who that was", "[job_end]") {
  Harness h;
  h.ReportAt(h.Attach(HelloOptions{}), {0, 24});
  SECTION("an operator without a name") {
    EndJob(h, {}, "");
    CHECK(JobOf(h).ended_by() == "operator");
  }
  SECTION("an operator") {
    EndJob(h, {}, "olga");
    CHECK(JobOf(h).ended_by() == "olga");
  }
  CHECK(JobOf(h).outcome() == "stopped");
  CHECK(JobOf(h).step() == 3);
}

TEST_CASE("a trainer that ends its own job is named", "[job_end]") {
  Harness h;
  h.peer = "alice";
  h.Attach(HelloOptions{});
  EndJob(h, "alice", "alice");
  CHECK(JobOf(h).ended_by() == "alice");
}

TEST_CASE("a job whose consumer ends with an error has failed with it", "[job_end]") {
  Harness h;
  const StreamId stream = h.Attach(HelloOptions{});
  h.ReportAt(stream, {0, 8});
  ByeWith(h, stream, "the GPU is gone\nTraceback");
  CHECK(JobOf(h).outcome() == "failed");
  CHECK(JobOf(h).error() == "rank 0 of job x: the GPU is gone");
  const auto& events = h.dispatcher->events().events();
  CHECK(std::any_of(events.begin(), events.end(), [](const PastEvent& event) {
    return event.what.kind == EventKind::kConsumerFailed &&
           event.what.text.find("the GPU is gone") != std::string::npos;
  }));
}

TEST_CASE("a job whose consumer is silent for too long is lost", "[job_end]") {
  Harness h;
  h.Attach(HelloOptions{});
  h.Advance(h.options.session_timeout + seconds(1));
  CHECK(JobOf(h).outcome() == "lost");
  CHECK_THAT(JobOf(h).why(), Contains("was silent for"));
}

TEST_CASE("a rank that comes back decides how its job ends", "[job_end]") {
  Harness h;
  h.Attach(HelloOptions{.nonce = 'a', .epochs = 1});
  const StreamId other = h.Attach(HelloOptions{.rank = 1, .nonce = 'b', .epochs = 1});
  h.talking = {other};
  h.Advance(h.options.session_timeout + seconds(1));
  const StreamId again = h.Attach(HelloOptions{.nonce = 'c', .epochs = 1});
  for (const StreamId stream : {again, other}) {
    h.ReportAt(stream, {1, 0});
    h.Bye(stream);
  }
  CHECK(JobOf(h).outcome() == "completed");
}

TEST_CASE("a job to which nobody comes back after a restart is lost", "[job_end]") {
  Harness h;
  h.Attach(HelloOptions{});
  h.Restart();
  h.Advance(h.options.session_timeout + seconds(1));
  CHECK(JobOf(h).outcome() == "lost");
  CHECK_THAT(JobOf(h).why(), Contains("no consumer came back"));
}

TEST_CASE("how a job ended is known after a restart", "[job_end]") {
  Harness h;
  const StreamId stream = h.Attach(HelloOptions{.epochs = 1});
  h.ReportAt(stream, {1, 0});
  h.Bye(stream);
  h.Restart();
  CHECK(JobOf(h).outcome() == "completed");
  CHECK(JobOf(h).progress() == 1);
}

TEST_CASE("a session that was never let in says nothing of its job", "[job_end]") {
  Harness h;
  const StreamId stream = h.Attach(HelloOptions{.nonce = 'a', .epochs = 1});
  const StreamId waiting = h.Attach(HelloOptions{.yaml = Yaml("seed=9\n"), .nonce = 'b'});
  h.ReportAt(stream, {1, 0});
  ByeWith(h, waiting, "gave up");
  h.Bye(stream);
  CHECK(JobOf(h).outcome() == "completed");
}

TEST_CASE("jobs that have ended come last in the status, the newest first", "[job_end]") {
  Harness h;
  for (const std::string job : {"a", "b"}) {
    h.Bye(h.Attach(HelloOptions{.job = job}));
    ++h.now.unix_seconds;
  }
  h.Attach(HelloOptions{.job = "z"});
  const v1::ServiceStatus status = BuildStatus(*h.dispatcher, h.options, h.now.time);
  REQUIRE(status.jobs_size() == 3);
  CHECK(status.jobs(0).name() == "z");
  CHECK(status.jobs(1).name() == "b");
  CHECK(status.jobs(2).name() == "a");
}

TEST_CASE("a long reason is cut", "[job_end]") {
  Harness h;
  const StreamId stream = h.Attach(HelloOptions{});
  ByeWith(h, stream, std::string(5000, 'x'));
  CHECK(JobOf(h).error().size() == 512);
}

}  // namespace
}  // namespace millrace::test
