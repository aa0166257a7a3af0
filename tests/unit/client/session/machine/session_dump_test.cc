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
    "a dump has place, window, leases, room, credit and failing workers, and is the same for "
    "the same events",
    "[session][dump]") {
  const auto dump = [] {
    Machine m;
    m.Welcome();
    m.Give({m.LeaseOf(1, 0, 4, 1), m.LeaseOf(2, 4, 4, 2, /*copy=*/true)});
    const auto opened = m.Take<OpenBatches>();
    m.Arrive(opened.at(0).stream, 0, 1, 1500);
    m.TakeBatch();
    m.state->OnBatchesClosed(opened.at(1).stream, Unavailable("connection reset"), m.now);
    m.Pass(kSecond);
    return m.state->Dump();
  };
  const std::string text = dump();
  CHECK(text == dump());
  CHECK_THAT(text, Contains("next step 1 at epoch 0, example 10 window 24"));
  CHECK_THAT(text, Contains("lease 10.1 of worker 10.1 steps 0 to 4 lacks from 1 room 3\n"));
  CHECK_THAT(text, Contains("worker 10.1 worker1:1 stream 2 owes "));
  CHECK_THAT(text, Contains("room 3 credit left "));
  CHECK_THAT(text, Contains("failing for 2.000 s: connection reset"));
}

}  // namespace
}  // namespace millrace::client
