// A job belongs to the name that began it.
#include <catch2/catch.hpp>

#include <set>
#include <string>

#include "harness.h"
#include "server/dispatcher/machine/status.h"
#include "server/dispatcher/machine/status_reach.h"

namespace millrace::test {
namespace {

using Catch::Contains;

StreamId AttachAs(Harness& h, const std::string& name, const HelloOptions& hello) {
  h.peer = name;
  return h.Attach(hello);
}

TEST_CASE("another name can take no part in a job", "[owners]") {
  Harness h;
  const StreamId alice = AttachAs(h, "alice", {});
  REQUIRE(h.WelcomeOn(alice) != nullptr);
  const StreamId eve = AttachAs(h, "eve", {.rank = 1, .nonce = 'b'});
  CHECK(h.ClosedWith(eve) ==
        PermissionDenied("job x belongs to alice, and this trainer is eve: give the job another "
                         "name"));
  CHECK(h.WelcomeOn(AttachAs(h, "alice", {.rank = 1, .nonce = 'c'})) != nullptr);
  CHECK(h.IsOpen(alice));
}

TEST_CASE("another name cannot take over a rank, also with the number of its session", "[owners]") {
  Harness h;
  const StreamId alice = AttachAs(h, "alice", {});
  v1::Hello stolen = MakeHello({});
  ToProto(h.SessionOn(alice), stolen.mutable_session());
  h.peer = "eve";
  CHECK(h.ClosedWith(h.Attach(stolen)).code() == StatusCode::kPermissionDenied);
  CHECK(h.IsOpen(alice));
}

TEST_CASE("a job belongs to its name over a restart, and to nobody when it has ended", "[owners]") {
  Harness h;
  const StreamId alice = AttachAs(h, "alice", {});
  CHECK(h.disk.at("x").owner() == "alice");
  h.Restart();
  CHECK(h.ClosedWith(AttachAs(h, "eve", {.nonce = 'b'})).code() == StatusCode::kPermissionDenied);
  const StreamId again = AttachAs(h, "alice", {.nonce = 'c'});
  h.Advance(seconds(20));
  h.Bye(again);
  static_cast<void>(alice);
  CHECK(h.disk.at("x").ended());
  CHECK(h.WelcomeOn(AttachAs(h, "eve", {.nonce = 'd'})) != nullptr);
  CHECK(h.disk.at("x").owner() == "eve");
}

TEST_CASE("where nobody is asked, jobs belong to nobody", "[owners]") {
  Harness h;
  REQUIRE(h.WelcomeOn(h.Attach(HelloOptions{})) != nullptr);
  CHECK(h.disk.at("x").owner().empty());
  CHECK(h.WelcomeOn(AttachAs(h, "alice", {.rank = 1, .nonce = 'b'})) != nullptr);
}

TEST_CASE("a trainer ends its own jobs only, and hears of no others", "[owners]") {
  Harness h;
  const StreamId alice = AttachAs(h, "alice", {});
  AttachAs(h, "bob", {.job = "y", .nonce = 'b'});
  const auto end = [&](const std::string& job, std::optional<std::string> owner) {
    v1::EndJobRequest request;
    request.set_job(job);
    Actions actions;
    auto response = h.dispatcher->EndJob(request, h.now, actions, owner);
    h.Do(std::move(actions));
    return response;
  };
  CHECK(end("x", "bob").status() ==
        PermissionDenied("job x is not one that bob began: only an operator may end it"));
  CHECK(h.IsOpen(alice));
  CHECK_THAT(end("z", "bob").status().message(), Contains("jobs are y"));
  CHECK(end("x", "alice")->sessions() == 1);
  CHECK_THAT(h.ClosedWith(alice).message(), Contains("job x was ended by alice"));
  CHECK(end("y", std::nullopt)->sessions() == 1);
}

v1::ServiceStatus StatusOf(Harness& h) { return BuildStatus(*h.dispatcher, h.options, h.now.time); }

TEST_CASE("a trainer sees its own jobs and consumers, and of workers only that they are there",
          "[owners]") {
  Harness h;
  h.AddWorker("w1");
  AttachAs(h, "alice", {});
  AttachAs(h, "bob", {.job = "y", .nonce = 'b'});
  h.Advance(seconds(2));
  v1::ServiceStatus status = StatusOf(h);
  REQUIRE(status.jobs_size() == 2);
  REQUIRE(status.has_desired_workers());
  (*status.mutable_datasets())["stdlib"].set_files(1);
  (*status.mutable_datasets())["secret"].set_files(1);
  const Identity alice{.proved = true,
                       .name = "alice",
                       .roles = {PeerRole::kTrainer},
                       .datasets = std::set<std::string>{"stdlib"}};
  Restrict(status, Reach::kOwn, alice);
  REQUIRE(status.jobs_size() == 1);
  CHECK(status.jobs(0).name() == "x");
  CHECK(status.jobs(0).owner() == "alice");
  REQUIRE(status.consumers_size() == 1);
  CHECK(status.consumers(0).job() == "x");
  REQUIRE(status.workers_size() == 1);
  CHECK(status.workers(0).name().empty());
  CHECK(status.workers(0).address().empty());
  CHECK_FALSE(status.workers(0).state().empty());
  CHECK(status.datasets().size() == 1);
  CHECK(status.jobs(0).has_desired_workers());
  CHECK_FALSE(status.has_desired_workers());  // others' needs are in it
}

TEST_CASE("a trainer sees the events of its own jobs, as far as they name no worker", "[owners]") {
  Harness h;
  h.AddWorker("w1");
  AttachAs(h, "eve", {.job = "z", .nonce = 'a'});
  const StreamId old = AttachAs(h, "bob", {.nonce = 'b'});
  h.Bye(old);
  AttachAs(h, "eve", {.job = "y", .nonce = 'c'});
  const StreamId alice = AttachAs(h, "alice", {.world_size = 1, .nonce = 'd'});
  AttachAs(h, "eve", {.rank = 1, .nonce = 'e'});  // refused: the job is not hers
  h.ReportAt(alice, {0, 0});
  v1::Report report;
  report.mutable_next();
  report.mutable_counters()->set_moved_failed(1);
  h.Report(alice, report);
  v1::ServiceStatus status = StatusOf(h);
  std::set<std::string> kinds;
  for (const v1::Event& event : status.events()) kinds.insert(event.kind());
  REQUIRE(kinds.contains("steps_moved"));
  REQUIRE(kinds.contains("consumer_refused"));
  Restrict(status, Reach::kOwn, {.proved = true, .name = "alice", .roles = {PeerRole::kTrainer}});
  REQUIRE(status.events_size() == 1);
  CHECK(status.events(0).kind() == "job_began");
  CHECK_THAT(status.events(0).text(), Contains("Job x of alice began"));
}

TEST_CASE("a viewer is not told why a pipeline was refused, which may quote it", "[owners]") {
  Harness h;
  AttachAs(h, "alice", {.yaml = "error=line 1: secret\n"});
  v1::ServiceStatus status = StatusOf(h);
  const auto texts = [&status] {
    std::string all;
    for (const v1::Event& event : status.events()) all += event.kind() + " " + event.text() + "\n";
    return all;
  };
  REQUIRE_THAT(texts(), Contains("secret"));
  Restrict(status, Reach::kAllButPipelines, {.proved = true, .roles = {PeerRole::kViewer}});
  CHECK_THAT(texts(), !Contains("secret") && Contains("pipeline_refused"));
}

TEST_CASE("a viewer sees everything but the text of pipelines", "[owners]") {
  Harness h;
  h.AddWorker("w1");
  AttachAs(h, "alice", {});
  v1::ServiceStatus status = StatusOf(h);
  REQUIRE_FALSE(status.jobs(0).pipeline_yaml().empty());
  Restrict(status, Reach::kAllButPipelines, {.proved = true, .roles = {PeerRole::kViewer}});
  CHECK(status.jobs(0).pipeline_yaml().empty());
  CHECK(status.jobs(0).name() == "x");
  CHECK(status.workers(0).name() == "w1");
}

}  // namespace
}  // namespace millrace::test
