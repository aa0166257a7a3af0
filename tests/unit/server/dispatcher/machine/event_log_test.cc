#include "server/dispatcher/machine/event_log.h"

#include <fstream>
#include <set>
#include <sstream>

#include <fmt/core.h>
#include <catch2/catch.hpp>

namespace millrace {
namespace {

using std::chrono::seconds;

constexpr Time kStart{seconds(1000)};

NewEvent Lost(const std::string& worker) {
  return {.kind = EventKind::kWorkerLost, .text = worker + " is lost", .peer = worker};
}

NewEvent Resumed(const std::string& job) {
  return {.kind = EventKind::kConsumerResumed, .text = "One of " + job + " resumed", .job = job};
}

TEST_CASE("an event keeps what it was told, with a number and a full stop", "[events]") {
  EventLog log;
  log.Add(Lost("w1"), kStart);
  log.Add({.kind = EventKind::kStoreFailed, .text = "The store fails."}, kStart + seconds(1));
  REQUIRE(log.events().size() == 2);
  CHECK(log.events()[0].number == 1);
  CHECK(log.events()[0].at == kStart);
  CHECK(log.events()[0].what.text == "w1 is lost.");
  CHECK(log.events()[0].what.peer == "w1");
  CHECK(log.events()[0].what.count == 1);
  CHECK(log.events()[1].number == 2);
  CHECK(log.events()[1].what.text == "The store fails.");
}

TEST_CASE("a burst of one kind is one event that counts, and tells the last", "[events]") {
  EventLog log;
  log.Add({.kind = EventKind::kStoreFailed, .text = "The store fails"}, kStart);
  for (int i = 0; i < 1000; ++i) log.Add(Lost(fmt::format("w{}", i)), kStart + seconds(1));
  REQUIRE(log.events().size() == 2);
  const NewEvent& burst = log.events()[1].what;
  CHECK(burst.count == 1000);
  CHECK(burst.text == "1000 workers are lost. The last: w999 is lost.");
  CHECK(burst.peer.empty());
}

TEST_CASE("events of one kind are told apart once there is time between them", "[events]") {
  EventLog log;
  log.Add(Lost("w1"), kStart);
  log.Add(Lost("w1"), kStart + seconds(9));
  log.Add(Lost("w1"), kStart + EventLog::kTogether);
  REQUIRE(log.events().size() == 2);
  CHECK(log.events()[0].what.count == 2);
  CHECK(log.events()[0].what.peer == "w1");
  CHECK(log.events()[1].what.count == 1);
}

TEST_CASE("events of jobs are told apart, until there are too many jobs", "[events]") {
  EventLog log;
  for (int i = 0; i < 100; ++i) {
    for (int rank = 0; rank < 3; ++rank) log.Add(Resumed(fmt::format("job{}", i)), kStart);
  }
  REQUIRE(log.events().size() == EventLog::kJobsApart + 1);
  CHECK(log.events()[0].what.job == "job0");
  CHECK(log.events()[0].what.text ==
        "3 consumers resumed (job job0). The last: One of job0 resumed.");
  const NewEvent& rest = log.events().back().what;
  CHECK(rest.job.empty());
  CHECK(rest.count == 3 * (100 - EventLog::kJobsApart));
}

TEST_CASE("what never stops drives nothing else out", "[events]") {
  EventLog log;
  log.Add({.kind = EventKind::kTookOver, .text = "Took over"}, kStart);
  log.Add({.kind = EventKind::kStoreFailed, .text = "The store fails"}, kStart);
  Time now = kStart;
  for (int i = 0; i < 10'000; ++i) {
    now = now + seconds(20);
    log.Add(Lost("w1"), now);
    log.Add({.kind = EventKind::kWorkerReturned, .text = "w1 is back"}, now);
  }
  REQUIRE(log.events().size() == kMaxEvents);
  CHECK(log.events()[0].what.text == "Took over.");
  CHECK(log.events()[1].what.text == "The store fails.");
  CHECK(log.events().back().number == 20'002);
  std::uint64_t last = 0;
  for (const PastEvent& event : log.events()) {
    CHECK(event.number > last);
    last = event.number;
  }
}

TEST_CASE("texts are bounded, of whole characters, without control characters", "[events]") {
  EventLog log;
  std::string longest;
  while (longest.size() < 10'000) longest += "\xE2\x88\x80";
  log.Add({.kind = EventKind::kPlanFailed, .text = longest, .peer = longest}, kStart);
  log.Add({.kind = EventKind::kDatasetFailed, .text = "a\nb\x1B[2J \xFF"}, kStart);
  const NewEvent& cut = log.events()[0].what;
  CHECK(cut.text.size() <= kMaxEventText);
  CHECK(cut.text.ends_with("\xE2\x88\x80..."));
  CHECK(cut.peer.size() <= kMaxEventPeer);
  CHECK(log.events()[1].what.text == "a b [2J  .");
  for (int i = 0; i < 100; ++i) {
    log.Add({.kind = EventKind::kPlanFailed, .text = longest}, kStart);
    CHECK(log.events()[0].what.text.size() <= kMaxEventText);
  }
}

TEST_CASE("a count of steps stays a number", "[events]") {
  EventLog log;
  for (int i = 0; i < 3; ++i) {
    log.Add({.kind = EventKind::kStepsMoved, .text = "Many", .count = 0x80000000}, kStart);
  }
  CHECK(log.events()[0].what.count == 0xFFFFFFFF);
}

TEST_CASE("a job's name is taken from its events", "[events]") {
  EventLog log;
  log.Add(Resumed("mine"), kStart);
  log.Add(Resumed("yours"), kStart);
  log.DetachJob("mine");
  CHECK(log.events()[0].what.job.empty());
  CHECK(log.events()[1].what.job == "yours");
}

TEST_CASE("every kind of event is on the page for operators", "[events]") {
  std::ifstream in(std::string(MILLRACE_SOURCE_DIR) + "/docs/reference/status.md");
  std::stringstream page;
  page << in.rdbuf();
  std::set<std::string_view> names;
  for (std::size_t i = 0; i < kEventKinds; ++i) {
    const std::string_view name = EventKindName(static_cast<EventKind>(i));
    CAPTURE(name);
    CHECK(names.insert(name).second);
    CHECK(page.str().find(fmt::format("| `{}` |", name)) != std::string::npos);
  }
}

}  // namespace
}  // namespace millrace
