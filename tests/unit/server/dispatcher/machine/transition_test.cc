// One event's updates and actions, without a machine around them.
#include "server/dispatcher/machine/transition.h"

#include <catch2/catch.hpp>

#include "harness.h"

namespace millrace::test {
namespace {

constexpr Moment kStart{Time{seconds(1000)}, 1'700'000'000};

void Ignore(const Update&) {}

TEST_CASE("an update is seen before it is applied", "[transition]") {
  const DispatcherFacts* facts = nullptr;
  std::vector<std::uint64_t> seen;
  Transition transition({}, kStart, [&](const Update&) { seen.push_back(facts->last_number().n); });
  facts = &transition.facts();
  CHECK(transition.NewNumber().n == 1);
  CHECK(transition.NewNumber().n == 2);
  CHECK(seen == std::vector<std::uint64_t>{0, 1});
}

TEST_CASE("a pause of our own is given to everybody, and time never goes back", "[transition]") {
  DispatcherOptions options;
  options.tick = milliseconds(250);
  Transition transition(options, kStart, Ignore);
  transition.Apply(StreamOpened{7, false, transition.now()});
  transition.Begin({kStart.time + milliseconds(250), kStart.unix_seconds});
  CHECK(transition.TakeActions().empty());
  CHECK(transition.facts().FindStream(7)->opened == kStart.time);

  transition.Begin({kStart.time + milliseconds(10'500), kStart.unix_seconds + 10});
  CHECK(transition.facts().FindStream(7)->opened == kStart.time + seconds(10));
  const Actions actions = transition.TakeActions();
  REQUIRE(actions.size() == 1);
  CHECK(std::get<LogEvent>(actions[0]).event == "paused");
  CHECK(transition.unix_seconds() == kStart.unix_seconds + 10);

  transition.Begin(kStart);
  CHECK(transition.now() == kStart.time + milliseconds(10'500));
}

TEST_CASE("unsettled jobs come in order, each once", "[transition]") {
  Transition transition({}, kStart, Ignore);
  for (const char* job : {"b", "a", "b"}) transition.Mark(job);
  CHECK(transition.TakeMarked() == "a");
  CHECK(transition.TakeMarked() == "b");
  CHECK_FALSE(transition.TakeMarked());
}

TEST_CASE("only a consumer's stream is closed with a code that it ends at", "[transition]") {
  Transition transition({}, kStart, Ignore);
  transition.Apply(StreamOpened{1, /*of_worker=*/false, transition.now()});
  transition.Apply(StreamOpened{2, /*of_worker=*/true, transition.now()});
  for (const StreamId stream : {1, 2, 3}) transition.Close(stream, InvalidArgument("no"));
  transition.Close(1, InvalidArgument("again"));
  const Actions actions = transition.TakeActions();
  REQUIRE(actions.size() == 2);
  CHECK(std::get<CloseStream>(actions[0]).status.code() == StatusCode::kFailedPrecondition);
  CHECK(std::get<CloseStream>(actions[1]).status.code() == StatusCode::kInvalidArgument);
  CHECK(transition.facts().streams().empty());
}

}  // namespace
}  // namespace millrace::test
