// Tests of who may attach, who waits and who is turned out.
#include <catch2/catch.hpp>

#include "tests/unit/server/dispatcher/machine/harness.h"

namespace millrace::test {
namespace {

using Catch::Contains;

v1::Hello Again(const Harness& h, StreamId stream, HelloOptions options, bool admitted = true) {
  v1::Hello hello = MakeHello(options);
  ToProto(h.SessionOn(stream), hello.mutable_session());
  hello.set_admitted(admitted);
  return hello;
}

TEST_CASE("a first message that comes again takes no rank from a successor", "[admission]") {
  Harness h;
  const HelloOptions old_options{.where = "host1:1", .nonce = 'a'};
  h.Attach(old_options);
  const StreamId successor = h.Attach(HelloOptions{.where = "host2:2", .nonce = 'b'});
  const StreamId replayed = h.Attach(old_options);
  CHECK(h.IsOpen(successor));
  CHECK_THAT(h.ClosedWith(replayed).message(), Catch::Contains("taken over by host2:2"));
}

TEST_CASE("a first session gets a welcome with all it needs to begin", "[admission]") {
  Harness h;
  h.AddWorker("w1");
  const StreamId stream = h.Attach(HelloOptions{.start = {1, 16}});
  const v1::Welcome* welcome = h.WelcomeOn(stream);
  REQUIRE(welcome != nullptr);
  CHECK(FromProto(welcome->session()).term == 100);
  CHECK(FromProto(welcome->start()) == Position{1, 16});
  CHECK(welcome->spec().steps().world_size() == 2);
  CHECK(welcome->static_digest() == std::string(32, '5'));
  CHECK(h.ListOn(stream) == std::vector<std::string>{"w1"});
  CHECK(h.attach[stream].back().term() == 100);
}

TEST_CASE("a session that still waits after its welcome gets it again", "[admission]") {
  Harness h;
  const StreamId stream = h.Attach(HelloOptions{});
  REQUIRE(h.WelcomeOn(stream) != nullptr);
  h.attach[stream].clear();
  h.Report(stream, v1::Report{});
  REQUIRE(h.WelcomeOn(stream) != nullptr);
  h.attach[stream].clear();
  h.ReportAt(stream, {0, 0});
  CHECK(h.WelcomeOn(stream) == nullptr);
}

TEST_CASE("a session has its number while its plan is compiled", "[admission]") {
  Harness h;
  h.hold_compiles = true;
  const StreamId stream = h.Attach(HelloOptions{});
  CHECK(h.SessionOn(stream).is_set());
  CHECK_THAT(h.WhyOn(stream), Contains("plan is being compiled"));
  CHECK(h.WelcomeOn(stream) == nullptr);
  h.AnswerCompiles();
  CHECK(h.WelcomeOn(stream) != nullptr);
}

TEST_CASE("of two rivals the later one stays and the other is told by whom",
          "[admission][rivals]") {
  Harness h;
  const StreamId first = h.Attach(HelloOptions{.where = "host1:1", .nonce = 'a'});
  const StreamId second = h.Attach(HelloOptions{.where = "host7:4121", .nonce = 'b'});
  CHECK(h.ClosedWith(first) == Aborted("rank 0 of job x was taken over by host7:4121"));
  CHECK(h.WelcomeOn(second) != nullptr);
  CHECK(h.dispatcher->facts().sessions().size() == 1);
}

TEST_CASE("an earlier rival that comes back is turned out", "[admission][rivals]") {
  Harness h;
  const HelloOptions options{.where = "host1:1", .nonce = 'a'};
  const StreamId first = h.Attach(options);
  h.Break(first);
  const StreamId second = h.Attach(HelloOptions{.where = "host2:2", .nonce = 'b'});
  const StreamId back = h.Attach(Again(h, first, options));
  CHECK(h.ClosedWith(back).code() == StatusCode::kAborted);
  CHECK(h.IsOpen(second));
}

TEST_CASE("an earlier rival loses to the later one after a restart too, whoever comes first",
          "[admission][rivals]") {
  Harness h;
  const HelloOptions old_options{.where = "host1:1", .nonce = 'a'};
  const HelloOptions new_options{.where = "host2:2", .nonce = 'b'};
  const StreamId first = h.Attach(old_options);
  h.Break(first);
  const StreamId second = h.Attach(new_options);
  const v1::Hello zombie = Again(h, first, old_options);
  const v1::Hello successor = Again(h, second, new_options);
  h.Restart();
  const bool zombie_first = GENERATE(true, false);
  const StreamId one = h.Attach(zombie_first ? zombie : successor);
  const StreamId two = h.Attach(zombie_first ? successor : zombie);
  CHECK(h.IsOpen(one) == !zombie_first);
  CHECK(h.IsOpen(two) == zombie_first);
}

TEST_CASE("other ranks and replicas are no rivals", "[admission][rivals]") {
  Harness h;
  const StreamId a = h.Attach(HelloOptions{.rank = 0, .nonce = 'a'});
  const StreamId b = h.Attach(HelloOptions{.rank = 1, .nonce = 'b'});
  const StreamId c = h.Attach(HelloOptions{.rank = 0, .nonce = 'c', .replica = 1});
  CHECK(h.dispatcher->facts().sessions().size() == 3);
  CHECK((h.IsOpen(a) && h.IsOpen(b) && h.IsOpen(c)));
}

TEST_CASE("a trainer of another world size waits for the job, told by whom it is held",
          "[admission][holder]") {
  Harness h;
  const StreamId holder = h.Attach(HelloOptions{.world_size = 4});
  const StreamId newcomer =
      h.Attach(HelloOptions{.world_size = 2, .where = "host9:9", .nonce = 'b'});
  CHECK(h.WelcomeOn(newcomer) == nullptr);
  CHECK_THAT(h.WhyOn(newcomer), Contains("held by host7:4121") && Contains("world size 4, not 2"));
  h.Bye(holder);
  CHECK(h.WelcomeOn(newcomer) != nullptr);
}

TEST_CASE("a newcomer that waited in vain fails naming the holder, who goes on",
          "[admission][holder]") {
  Harness h;
  const StreamId holder = h.Attach(HelloOptions{});
  const StreamId newcomer = h.Attach(HelloOptions{.start = {1, 0}, .nonce = 'b'});
  h.talking = {holder, newcomer};
  h.Advance(seconds(59));
  CHECK(h.IsOpen(newcomer));
  h.Advance(seconds(2));
  CHECK(h.ClosedWith(newcomer).code() == StatusCode::kFailedPrecondition);
  CHECK_THAT(h.ClosedWith(newcomer).message(), Contains("held by host7:4121") &&
                                                   Contains("started at epoch 0, example 0") &&
                                                   Contains("jobs end x"));
  CHECK(h.IsOpen(holder));
}

TEST_CASE("ranks with different cursors meet only where both allow it", "[admission][holder]") {
  Harness h;
  const bool any = GENERATE(true, false);
  h.Attach(HelloOptions{.rank = 0, .nonce = 'a', .any_start = true});
  const StreamId other =
      h.Attach(HelloOptions{.rank = 1, .start = {0, 8}, .nonce = 'b', .any_start = any});
  CHECK((h.WelcomeOn(other) != nullptr) == any);
}

TEST_CASE("a session ends 10 s after its last word and its job with it", "[admission][time]") {
  Harness h;
  const StreamId holder = h.Attach(HelloOptions{});
  const StreamId newcomer = h.Attach(HelloOptions{.world_size = 1, .nonce = 'b'});
  h.talking = {newcomer};
  h.Break(holder);
  h.Advance(milliseconds(9500));
  CHECK(h.WelcomeOn(newcomer) == nullptr);
  h.Advance(seconds(1));
  CHECK(h.WelcomeOn(newcomer) != nullptr);
}

TEST_CASE("a pause of the dispatcher ends no session", "[admission][time]") {
  Harness h;
  const StreamId stream = h.Attach(HelloOptions{});
  h.Advance(seconds(9));
  h.Pause(seconds(30));
  CHECK(h.IsOpen(stream));
  h.Advance(seconds(2));
  CHECK(h.ClosedWith(stream).code() == StatusCode::kUnavailable);
}

TEST_CASE("a reconnect keeps its number and takes the place of its old stream", "[admission]") {
  Harness h;
  const HelloOptions options;
  const StreamId first = h.Attach(options);
  const StreamId second = h.Attach(Again(h, first, options));
  CHECK(h.ClosedWith(first).code() == StatusCode::kCancelled);
  REQUIRE(h.WelcomeOn(second) != nullptr);
  CHECK(SessionId(FromProto(h.WelcomeOn(second)->session())) == h.SessionOn(first));
}

TEST_CASE("a first contact that is repeated is the same session", "[admission]") {
  Harness h;
  const StreamId first = h.Attach(HelloOptions{});
  const StreamId second = h.Attach(HelloOptions{});
  CHECK(h.SessionOn(first) == h.SessionOn(second));
  CHECK(h.dispatcher->facts().sessions().size() == 1);
}

TEST_CASE("a session number of another process is not given away", "[admission]") {
  Harness h;
  const StreamId first = h.Attach(HelloOptions{.world_size = 2});
  const StreamId second =
      h.Attach(Again(h, first, HelloOptions{.rank = 1, .world_size = 2, .nonce = 'z'}));
  CHECK(h.IsOpen(first));
  CHECK(h.IsOpen(second));
  CHECK(h.SessionOn(second) > h.SessionOn(first));
  // From then on, the session comes back with the number that it was given.
  const StreamId again =
      h.Attach(Again(h, second, HelloOptions{.rank = 1, .world_size = 2, .nonce = 'z'}));
  CHECK(h.SessionOn(again) == h.SessionOn(second));
}

TEST_CASE("a session cannot come back as another rank", "[admission][hostile]") {
  Harness h;
  const StreamId first = h.Attach(HelloOptions{});
  const StreamId changed = h.Attach(Again(h, first, HelloOptions{.rank = 1}));
  CHECK_THAT(h.ClosedWith(changed).message(), Contains("cannot come back as rank 1"));
}

TEST_CASE("an admitted session and its report make a new dispatcher whole",
          "[admission][restart]") {
  Harness h;
  h.AddWorker("w1");
  const HelloOptions options;
  const StreamId first = h.Attach(options);
  h.ReportAt(first, {0, 0});

  v1::AttachRequest request;
  *request.mutable_hello() = Again(h, first, options);
  v1::Report& report = *request.mutable_report();
  ToProto(Position{0, 32}, report.mutable_next());
  report.set_used(20);
  h.Restart();
  h.AddWorker("w1");
  const StreamId second = h.Open();
  h.Send(second, request);

  REQUIRE(h.WelcomeOn(second) != nullptr);
  CHECK(h.SessionOn(second) == h.SessionOn(first));
  const SessionFacts& session = *h.dispatcher->facts().FindSession(h.SessionOn(second));
  CHECK(session.next() == Position{0, 32});
  CHECK(session.list.size.members() == 20);  // it had so many members in use
  CHECK(h.ListOn(second) == std::vector<std::string>{"w1"});
}

TEST_CASE("a rank that is turned out in a wait is named too", "[admission][rivals]") {
  Harness h;
  h.Attach(HelloOptions{.world_size = 4});
  const StreamId one = h.Attach(HelloOptions{.where = "a:1", .nonce = 'b'});
  const StreamId two = h.Attach(HelloOptions{.where = "b:2", .nonce = 'c'});
  CHECK(h.ClosedWith(one) == Aborted("rank 0 of job x was taken over by b:2"));
  CHECK(h.IsOpen(two));
}

TEST_CASE("only so many sessions may wait for one rank", "[admission][hostile]") {
  DispatcherOptions options;
  options.max_sessions_of_rank = 2;
  Harness h(options);
  h.Attach(HelloOptions{.world_size = 4, .nonce = 'a'});
  h.Attach(HelloOptions{.world_size = 3, .nonce = 'b'});
  const StreamId third = h.Attach(HelloOptions{.world_size = 2, .nonce = 'c'});
  CHECK(h.ClosedWith(third).code() == StatusCode::kResourceExhausted);
  CHECK_THAT(h.ClosedWith(third).message(), Contains("2 sessions want to be rank 0 of job x"));
  CHECK(h.WelcomeOn(h.Attach(HelloOptions{.rank = 1, .world_size = 4, .nonce = 'd'})) != nullptr);
}

}  // namespace
}  // namespace millrace::test
