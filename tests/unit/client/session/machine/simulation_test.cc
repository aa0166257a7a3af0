// Runs the state machine through seeded histories: killed, hung and new workers, restarted
// dispatchers that know no workers at first, repeated messages, and a loop of changing pace.

#include <catch2/catch.hpp>

#include "tests/unit/client/session/machine/simulation.h"

namespace millrace::client {
namespace {

constexpr std::uint64_t kSeeds = 100;

/// Checks that the loop took each step of the rank once, in order, to the end of the session.
void CheckAllTaken(Simulation& simulation) {
  REQUIRE(simulation.taken.size() == simulation.steps().end());
  for (std::uint64_t i = 0; i < simulation.taken.size(); ++i) {
    if (simulation.taken[i] != i) FAIL("step " << i << " was followed by another");
  }
}

TEST_CASE("through any history each batch is taken once, in order, within the bounds",
          "[session][simulation][I1][I5][J2][J3]") {
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SimulationOptions options;
    options.seed = seed;
    options.workers = 1 + static_cast<int>(seed % 4);
    options.prefetch_bytes = seed % 3 == 0 ? 1'000 : 20'000;
    if (seed % 5 == 0) options.start = {1, 60};
    Simulation simulation(options);
    const bool ended = simulation.Run(300 * kSecond);
    INFO(simulation.Describe());
    REQUIRE(ended);
    for (const std::string& what : simulation.broken) FAIL_CHECK(what);
    REQUIRE(simulation.broken.empty());
    CheckAllTaken(simulation);
    CHECK(simulation.state().stats(simulation.now()).duplicate_mismatches == 0);
  }
}

TEST_CASE("when faults end, what is left comes as fast as one worker builds",
          "[session][simulation][I9]") {
  double slowest = 0;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SimulationOptions options;
    options.seed = seed + 10'000;
    options.workers = 2;
    options.faults_per_second = 4;
    options.faults_until = 5 * kSecond;
    Simulation simulation(options);
    const bool ended = simulation.Run(300 * kSecond);
    INFO(simulation.Describe());
    REQUIRE(ended);
    const double after = ToSeconds(simulation.now() - simulation.faults_over());
    slowest = std::max(slowest, after);
    // There are 77 steps of at most 30 ms, a few slow ones, and the loop's pauses. It takes 3 s to
    // find a silent worker, and 2.5 s to find the dispatcher again.
    CHECK(after < 40);
  }
  INFO("slowest " << slowest);
}

TEST_CASE("without faults no worker fails, and hardly any batch is built twice",
          "[session][simulation][J4]") {
  std::uint64_t steps = 0;
  std::uint64_t builds = 0;
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    SimulationOptions options;
    options.seed = seed;
    options.faults_until = {};
    options.slow = 0;
    Simulation simulation(options);
    const bool ended = simulation.Run(300 * kSecond);
    INFO(simulation.Describe());
    REQUIRE(ended);
    CheckAllTaken(simulation);
    const SessionStats stats = simulation.state().stats(simulation.now());
    CHECK(stats.moved_failed == 0);
    steps += simulation.steps().end();
    builds += simulation.builds;
  }
  CHECK(builds <= steps + steps / 100);
}

}  // namespace
}  // namespace millrace::client
