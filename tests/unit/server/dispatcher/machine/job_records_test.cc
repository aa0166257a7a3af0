// Tests of a job's record on disk, and of what a failing store stops.
#include <catch2/catch.hpp>

#include "tests/unit/server/dispatcher/machine/harness.h"

namespace millrace::test {
namespace {

using Catch::Contains;

TEST_CASE("the record of a job is on disk before the welcome that begins it", "[record]") {
  Harness h;
  h.hold_commits = true;
  const StreamId stream = h.Attach(HelloOptions{});
  REQUIRE(h.commits.size() == 1);
  CHECK(h.commits[0].name() == "x");
  CHECK(h.commits[0].world_size() == 2);
  CHECK_FALSE(h.commits[0].ended());
  CHECK_THAT(h.commits[0].canonical_pipeline(), Contains("examples=80"));
  CHECK(h.WelcomeOn(stream) == nullptr);
  CHECK_THAT(h.WhyOn(stream), Contains("record is being written"));
  h.AnswerCommits();
  CHECK(h.WelcomeOn(stream) != nullptr);
}

TEST_CASE("the second rank of a job needs no second record", "[record]") {
  Harness h;
  h.Attach(HelloOptions{.rank = 0, .nonce = 'a'});
  h.Attach(HelloOptions{.rank = 1, .nonce = 'b'});
  CHECK(h.commits_done == 1);
}

TEST_CASE("a job that begins again with another world size is written again first", "[record]") {
  Harness h;
  h.Bye(h.Attach(HelloOptions{.world_size = 2, .nonce = 'a'}));
  h.hold_commits = true;
  const StreamId stream = h.Attach(HelloOptions{.world_size = 1, .nonce = 'b'});
  CHECK(h.WelcomeOn(stream) == nullptr);
  REQUIRE(h.commits.size() == 1);
  CHECK(h.commits[0].world_size() == 1);
}

TEST_CASE("the last session's bye ends the job's record", "[record]") {
  Harness h;
  const StreamId a = h.Attach(HelloOptions{.rank = 0, .nonce = 'a'});
  const StreamId b = h.Attach(HelloOptions{.rank = 1, .nonce = 'b'});
  h.Bye(a);
  CHECK_FALSE(h.disk["x"].ended());
  h.Bye(b);
  CHECK(h.disk["x"].ended());
  CHECK(h.disk["x"].ended_unix_seconds() == 1'700'000'000);
}

TEST_CASE("a job that begins while its end is being written waits for a record of its own",
          "[record]") {
  Harness h;
  const StreamId first = h.Attach(HelloOptions{.nonce = 'a'});
  h.hold_commits = true;
  h.Bye(first);
  const StreamId second = h.Attach(HelloOptions{.nonce = 'b'});
  CHECK(h.WelcomeOn(second) == nullptr);
  h.hold_commits = false;
  h.AnswerCommits();
  CHECK(h.WelcomeOn(second) != nullptr);
  CHECK_FALSE(h.disk["x"].ended());
}

TEST_CASE("a store that fails stops only new jobs, says why, and is tried again",
          "[record][store]") {
  Harness h;
  h.AddWorker("w1");
  const StreamId running = h.Attach(HelloOptions{.job = "old", .nonce = 'a'});
  h.store_error = ResourceExhausted("disk full");
  const StreamId waiting = h.Attach(HelloOptions{.job = "new", .nonce = 'b'});
  CHECK_THAT(h.WhyOn(waiting), Contains("disk full"));
  const StreamId joining = h.Attach(HelloOptions{.job = "old", .rank = 1, .nonce = 'c'});
  CHECK(h.WelcomeOn(joining) != nullptr);
  h.talking = {running, waiting, joining};
  h.ReportAt(running, {0, 0});
  CHECK_FALSE(h.ListOn(running).empty());
  h.Advance(seconds(90));  // longer than attach_timeout: nobody holds the job
  CHECK(h.IsOpen(waiting));
  h.store_error = OkStatus();
  h.Advance(seconds(3));
  CHECK(h.WelcomeOn(waiting) != nullptr);
}

TEST_CASE("a write that failed is forgotten with the job that nobody waits for",
          "[record][store]") {
  Harness h;
  h.store_error = ResourceExhausted("disk full");
  const StreamId gone = h.Attach(HelloOptions{.job = "new", .nonce = 'a'});
  CHECK_FALSE(h.dispatcher->facts().StoreError().ok());
  h.Bye(gone);
  h.store_error = OkStatus();
  h.Advance(seconds(3));
  CHECK(h.dispatcher->facts().StoreError().ok());
  CHECK(h.dispatcher->facts().writes().empty());
}

TEST_CASE("an end whose write failed may be on disk all the same: who comes next writes anew",
          "[record][store]") {
  Harness h;
  const StreamId first = h.Attach(HelloOptions{.nonce = 'a'});
  h.store_error = Unavailable("no answer from etcd");
  h.Bye(first);
  CHECK_FALSE(h.dispatcher->facts().StoreError().ok());
  h.disk["x"].set_ended(true);  // only the answer was lost
  const StreamId second = h.Attach(HelloOptions{.nonce = 'b'});
  CHECK(h.WelcomeOn(second) == nullptr);
  CHECK_THAT(h.WhyOn(second), Contains("no answer from etcd"));
  h.store_error = OkStatus();
  h.talking = {second};
  h.Advance(seconds(3));
  CHECK(h.WelcomeOn(second) != nullptr);
  CHECK(h.dispatcher->facts().StoreError().ok());
  CHECK_FALSE(h.disk["x"].ended());
}

TEST_CASE("a begin whose answer was lost is ended with the job that nobody waits for",
          "[record][store]") {
  Harness h;
  h.store_error = Unavailable("no answer from etcd");
  const StreamId gone = h.Attach(HelloOptions{.nonce = 'a'});
  h.disk["x"].set_name("x");  // only the answer was lost
  h.talking = {gone};
  h.store_error = ResourceExhausted("disk full");
  h.Advance(seconds(3));  // the first try may still have written it
  h.Bye(gone);
  h.Advance(seconds(30));
  CHECK_FALSE(h.dispatcher->facts().writes().empty());
  h.store_error = OkStatus();
  h.Advance(seconds(3));
  CHECK(h.disk["x"].ended());
  CHECK(h.dispatcher->facts().writes().empty());
}

TEST_CASE("of begins whose answers were lost so many are kept to be ended as jobs may run",
          "[record][store][limits]") {
  DispatcherOptions options;
  options.max_jobs = 3;
  Harness h(options);
  h.store_error = Unavailable("no answer from etcd");
  for (char c = 'a'; c <= 'h'; ++c) {
    h.Bye(h.Attach(HelloOptions{.job = std::string(1, c), .nonce = c}));
  }
  CHECK(h.dispatcher->facts().writes().size() == 3);
}

TEST_CASE("a running job comes back to a dispatcher whose store fails", "[record][store]") {
  Harness h;
  const StreamId first = h.Attach(HelloOptions{});
  v1::Hello hello = MakeHello({});
  ToProto(h.SessionOn(first), hello.mutable_session());
  hello.set_admitted(true);
  h.disk.clear();  // the state folder was wiped
  h.store_error = Internal("cannot write");
  h.Restart();
  const StreamId second = h.Attach(hello);
  CHECK(h.WelcomeOn(second) != nullptr);
  h.store_error = OkStatus();
  h.talking = {second};
  h.Advance(seconds(4));
  CHECK(h.disk.contains("x"));
}

TEST_CASE("a store of a higher term ends this dispatcher's", "[record][term]") {
  Harness h;
  h.store_error = FailedPrecondition("the store's term is 105, not 100");
  const StreamId stream = h.Attach(HelloOptions{});
  CHECK(h.ClosedWith(stream).code() == StatusCode::kUnavailable);
  CHECK_THAT(h.ClosedWith(stream).message(), Contains("the store's term is 105"));
}

TEST_CASE("a job of before a restart is kept for its sessions, then ended", "[record][restart]") {
  Harness h;
  h.Attach(HelloOptions{.world_size = 4});
  h.Restart();
  const StreamId other = h.Attach(HelloOptions{.world_size = 2, .nonce = 'b'});
  CHECK_THAT(h.WhyOn(other), Contains("ran with world size 4"));
  h.talking = {other};
  h.Advance(seconds(9));
  CHECK(h.WelcomeOn(other) == nullptr);
  h.Advance(seconds(2));
  CHECK(h.WelcomeOn(other) != nullptr);
}

TEST_CASE("a job that nobody came back to is ended on disk", "[record][restart]") {
  Harness h;
  h.Attach(HelloOptions{});
  h.Restart();
  h.Advance(seconds(9));
  CHECK_FALSE(h.disk["x"].ended());
  h.Advance(seconds(2));
  CHECK(h.disk["x"].ended());
}

TEST_CASE("the same trainer begins at once after a restart of both", "[record][restart]") {
  Harness h;
  h.Attach(HelloOptions{.nonce = 'a'});
  h.Restart();
  CHECK(h.WelcomeOn(h.Attach(HelloOptions{.nonce = 'b'})) != nullptr);
}

}  // namespace
}  // namespace millrace::test
