// Tests of what sessions are told and how they end, without a machine around them.
#include "server/dispatcher/machine/sessions.h"

#include <catch2/catch.hpp>

#include "harness.h"

namespace millrace::test {
namespace {

using Catch::Contains;

/// Sessions that wait, each on a stream of its own.
struct Waiting {
  SessionId Add(StreamId stream, const HelloOptions& hello) {
    transition.Apply(StreamOpened{stream, false, transition.now()});
    const SessionId id(transition.NewNumber());
    transition.Apply(SessionOpened{id, MakeHello(hello), "plan", stream, transition.now()});
    return id;
  }

  Transition transition{{}, {Time{seconds(1000)}, 1'700'000'000}, [](const Update&) {}};
  WorkerLists lists{transition};
  Sessions sessions{transition, lists};
};

TEST_CASE("a session is told once what it waits for, and again when that changes", "[sessions]") {
  Waiting w;
  const SessionId id = w.Add(1, HelloOptions{});
  w.sessions.Wait(id, "one thing");
  w.sessions.Wait(id, "one thing");
  w.sessions.Wait(id, "another");
  const Actions actions = w.transition.TakeActions();
  REQUIRE(actions.size() == 2);
  CHECK(std::get<SendAttach>(actions[0]).message.waiting().why() == "one thing");
  CHECK(std::get<SendAttach>(actions[1]).message.waiting().why() == "another");
}

TEST_CASE("a session that ends closes its stream and leaves its job to be settled", "[sessions]") {
  Waiting w;
  w.sessions.Fail(w.Add(1, HelloOptions{}), Aborted("over"), EventKind::kConsumerFailed);
  const Actions actions = w.transition.TakeActions();
  REQUIRE(actions.size() == 2);
  CHECK(std::get<LogEvent>(actions[0]).event == "session ended");
  CHECK(std::get<CloseStream>(actions[1]).status.message() == "over");
  CHECK(w.transition.facts().sessions().empty());
  CHECK(w.transition.TakeMarked() == "x");
}

TEST_CASE("a job is turned out with all its sessions and no others", "[sessions]") {
  Waiting w;
  w.Add(1, HelloOptions{.nonce = 'a'});
  w.Add(2, HelloOptions{.rank = 1, .nonce = 'b'});
  const SessionId other = w.Add(3, HelloOptions{.job = "y", .nonce = 'c'});
  CHECK(w.sessions.TurnOut("x")->sessions() == 2);
  REQUIRE(w.transition.facts().sessions().size() == 1);
  CHECK(w.transition.facts().FindSession(other) != nullptr);
  CHECK_THAT(w.sessions.TurnOut("x").status().message(), Contains("jobs are y"));
}

}  // namespace
}  // namespace millrace::test
