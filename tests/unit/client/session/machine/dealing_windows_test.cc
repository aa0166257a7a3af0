// Tests of windows over data that no host maps: each has a home among the members.
#include <catch2/catch.hpp>

#include <map>
#include <span>
#include <string>
#include <vector>

#include "client/session/machine/window_homes.h"
#include "common/base/hash.h"
#include "tests/unit/client/session/machine/machine.h"

namespace millrace::client {
namespace {

/// As docs/internals/protocol.md has it.
std::uint64_t HomeOf(std::uint64_t window, const std::vector<std::uint64_t>& workers) {
  std::uint64_t home = 0;
  std::uint64_t highest = 0;
  for (const std::uint64_t worker : workers) {
    const std::string text =
        "0/window/" + std::to_string(window) + "/10." + std::to_string(worker);
    const std::uint64_t rank = Xxh3_64(std::as_bytes(std::span(text)));
    if (rank <= highest) continue;
    highest = rank;
    home = worker;
  }
  return home;
}

/// Batches of 5 for each of two ranks: a window of 40 has 4 steps.
Machine::Options InWindows() {
  Machine::Options options;
  options.steps = {.examples = 100'000, .size = 5, .world_size = 2};
  options.prefetch_bytes = 12'000;
  options.window_units = 40;
  return options;
}

/// A session whose workers speak one after the other.
class Windows : public Machine {
 public:
  Windows() : Machine(InWindows()) {
    Welcome();
    List({1, 2, 3});
  }
  /// A worker says something. Adds the steps that are asked for since, and by whom, to `since`.
  void SayAndLook(std::uint64_t worker, const Word& word) {
    Say(worker, word);
    spoken.push_back(worker);
    Look();
  }
  /// Brings the loop's next step, and lets the loop take it.
  void Go() {
    const std::uint64_t step = state->next();
    REQUIRE(asked.contains(step));
    Arrive(StreamTo(asked.at(step)), step);
    TakeBatch();
    Look();
  }
  /// Sees to which workers steps have gone since the last call: home, or elsewhere.
  void Look() {
    for (const std::uint64_t worker : listed) {
      for (const std::uint64_t step : AskedOf(worker)) {
        if (!asked.emplace(step, worker).second) continue;
        const bool home = worker == HomeOf(step / 4, spoken);
        ++(home ? at_home : elsewhere)[worker];
      }
    }
  }
  std::vector<std::uint64_t> spoken;
  std::map<std::uint64_t, std::uint64_t> asked;  // the worker of each step
  std::map<std::uint64_t, int> at_home;          // steps, by worker
  std::map<std::uint64_t, int> elsewhere;
};

TEST_CASE("steps go to the homes of their windows", "[dealing][windows]") {
  Windows m;
  for (const std::uint64_t worker : {1, 2, 3}) m.SayAndLook(worker, {.slots = 100, .threads = 100});
  for (int i = 0; i < 200; ++i) m.Go();
  CHECK(m.elsewhere.empty());
  CHECK(m.at_home.size() == 3);
}

TEST_CASE("a step is left to the home of its window until that one has a slot",
          "[dealing][windows]") {
  Windows m;
  for (const std::uint64_t worker : {1, 2}) m.SayAndLook(worker, {.slots = 1, .batch_ms = 10});
  for (int i = 0; i < 40; ++i) {
    CHECK(m.state->wants_more());
    m.Go();
    m.PassAttached(100 * kMs);
    m.Look();
    m.state->OnLoopAsks(m.now);
  }
  CHECK(m.elsewhere.empty());
  CHECK(m.at_home[1] > 5);
  CHECK(m.at_home[2] > 5);
}

TEST_CASE("steps go elsewhere if the home of their window is too slow", "[dealing][windows]") {
  Windows m;
  m.SayAndLook(1, {.slots = 4, .batch_ms = 2000});
  m.SayAndLook(2, {.slots = 100, .batch_ms = 10});
  for (int i = 0; i < 40; ++i) m.Go();
  CHECK(m.at_home[1] < 10);
  CHECK(m.elsewhere[2] > 5);
}

TEST_CASE("a window without its home has another one, and the rest keep theirs",
          "[dealing][windows]") {
  WindowHomes homes;
  homes.SetUnits(16);
  CHECK(homes.Of(3, 31) == EpochWindow{3, 1});
  const auto all_of = [&](const std::vector<WorkerId>& members) {
    homes.SetMembers(members);
    std::vector<WorkerId> found;
    for (std::uint64_t window = 0; window < 300; ++window) {
      found.push_back(homes.HomeOf({1, window}));
    }
    return found;
  };
  const std::vector<WorkerId> before =
      all_of({Machine::IdOf(1), Machine::IdOf(2), Machine::IdOf(3)});
  const std::vector<WorkerId> after = all_of({Machine::IdOf(1), Machine::IdOf(3)});
  std::size_t moved = 0;
  for (std::size_t i = 0; i < before.size(); ++i) {
    if (before[i] == Machine::IdOf(2)) {
      ++moved;
    } else {
      CHECK(after[i] == before[i]);
    }
  }
  CHECK(moved > 60);
  CHECK(moved < 140);
}

}  // namespace
}  // namespace millrace::client
