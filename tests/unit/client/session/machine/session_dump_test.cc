// The text in which a session's state machine describes itself to people.
#include <catch2/catch.hpp>

#include "tests/unit/client/session/machine/machine.h"

namespace millrace::client {
namespace {

using Catch::Matchers::Contains;

TEST_CASE("a dump before the Welcome says who waits for what", "[session][dump]") {
  Machine m;
  m.attach = m.TakeLast<OpenAttach>()->stream;
  m.state->OnAttachWritten(m.attach, m.now);
  v1::AttachResponse message;
  message.set_term(m.term);
  message.mutable_waiting()->set_why("the plan is being compiled");
  m.state->OnAttachMessage(m.attach, message, m.now);
  const std::string dump = m.state->Dump();
  CHECK_THAT(dump, Contains("job j rank 1 replica 0 of 2"));
  CHECK_THAT(dump, Contains("waiting 'the plan is being compiled'"));
  CHECK_THAT(dump, !Contains("next step"));
}

TEST_CASE(
    "a dump has place, window, asks, credit and failing workers, and is the same for the same "
    "events",
    "[session][dump]") {
  const auto dump = [] {
    Machine m;
    m.Welcome();
    const StreamId worker = m.JoinBoth({.slots = 4}).first;
    m.Arrive(worker, 0, 1500);
    m.TakeBatch();
    m.Break(2, Unavailable("connection reset"));
    m.Say(1, {.slots = 4, .built = {1}, .twins = {2}});
    m.Pass(100 * kMs);
    return m.state->Dump();
  };
  const std::string text = dump();
  CHECK(text == dump());
  CHECK_THAT(text, Contains("next step 1 at epoch 0, example 10 window 24"));
  CHECK_THAT(text, Contains("step 1 asked of 10.1 0.100 s ago, due "));
  CHECK_THAT(text, Contains(" built\n"));
  CHECK_THAT(text, Contains("worker 10.1 worker1:1 place 0 stream 2 asked "));
  CHECK_THAT(text, Contains("credit left "));
  CHECK_THAT(text, Contains("slots 4 batch 0.010000 s threads 1.000 split 1 building 0 twins 1"));
  CHECK_THAT(text, Contains("failing for 0.400 s: connection reset"));
}

}  // namespace
}  // namespace millrace::client
