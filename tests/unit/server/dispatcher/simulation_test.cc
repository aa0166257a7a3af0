#include <catch2/catch.hpp>

#include <cstdlib>

#include "simulation.h"

namespace millrace::test {
namespace {

TEST_CASE(
    "through hundreds of faulty histories the dispatcher keeps its invariants and every trainer "
    "comes to its end",
    "[simulation]") {
  // MILLRACE_SEED runs one history again.
  const char* chosen = std::getenv("MILLRACE_SEED");
  const std::uint64_t first = chosen != nullptr ? std::strtoull(chosen, nullptr, 10) : 1;
  const std::uint64_t last = chosen != nullptr ? first : 300;
  Simulation::Counts all;
  for (std::uint64_t seed = first; seed <= last; ++seed) {
    Simulation simulation(seed);
    const std::string failure = simulation.Run();
    INFO("MILLRACE_SEED=" << seed);
    REQUIRE(failure == "");
    all.restarts += simulation.counts().restarts;
    all.taken_over += simulation.counts().taken_over;
    all.refused += simulation.counts().refused;
    all.finished += simulation.counts().finished;
    all.leases += simulation.counts().leases;
    all.outages += simulation.counts().outages;
    all.welcomes += simulation.counts().welcomes;
  }
  INFO("restarts " << all.restarts << ", taken over " << all.taken_over << ", refused "
                   << all.refused << ", finished " << all.finished << ", leases " << all.leases
                   << ", outages " << all.outages << ", welcomes " << all.welcomes);
  if (chosen != nullptr) return;
  // A simulation in which nothing happens proves nothing.
  CHECK(all.restarts > 300);
  CHECK(all.taken_over > 20);
  CHECK(all.refused > 20);
  CHECK(all.finished > 600);
  CHECK(all.leases > 10'000);
}

}  // namespace
}  // namespace millrace::test
