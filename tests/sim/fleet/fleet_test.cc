#include <catch2/catch.hpp>

#include <chrono>
#include <cstdio>
#include <string>

#include "tests/sim/fleet/fleet.h"
#include "tests/sim/fleet/scenarios.h"

namespace millrace::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

/// Batches of 4 MB that take 16 ms to build, for steps of 5 ms: the loops need 64 % of the CPUs.
FleetSetup Quick(std::uint32_t workers, std::uint32_t jobs, std::uint32_t ranks) {
  FleetSetup setup;
  setup.workers = workers;
  setup.jobs = jobs;
  setup.ranks = ranks;
  setup.build = milliseconds(16);
  setup.step = milliseconds(5);
  setup.batch_bytes = 4'000'000;
  return setup;
}

/// Hundreds of workers. So that they can be simulated in a minute, steps and builds take far longer
/// than those of Quick.
FleetSetup Large(std::uint32_t workers) {
  FleetSetup setup;
  setup.workers = workers;
  setup.jobs = 2;
  setup.ranks = 125;
  setup.build = milliseconds(1000);
  setup.step = milliseconds(400);
  setup.batch_bytes = 16'000'000;
  return setup;
}

/// Lets the fleet run, and returns what it did in this time.
Figures Pass(FleetWorld& fleet, Duration duration, const char* what) {
  fleet.Mark();
  fleet.Run(duration);
  const Figures figures = fleet.Measure();
  std::printf("%s: %s\n", what, ToText(figures).c_str());
  CHECK(fleet.failure() == "");
  return figures;
}

TEST_CASE(
    "under a steady load hardly anything changes, and loops wait no more than with the best "
    "pinned settings",
    "[fleet][tune]") {
  const FleetSetup setup = Quick(5, 2, 2);
  const Figures best = BestPinned(setup, {1, 2, 4}, {2, 16, 67}, seconds(10), seconds(20));
  CHECK(best.waiting < 0.01);
  FleetWorld fleet(setup);
  fleet.Run(seconds(10));
  const Figures steady = Pass(fleet, minutes(10), "steady");
  CHECK(steady.batches_per_second > 0.98 * best.batches_per_second);
  CHECK(steady.waiting < 0.01);
  CHECK(steady.most_waiting < 0.01);
  CHECK(steady.most_worker_changes <= 5);
  CHECK(steady.most_consumer_changes <= 5);
}

TEST_CASE("settings follow the time of a step within half a minute, and do not swing",
          "[fleet][tune]") {
  const FleetSetup quick = Quick(25, 2, 10);
  const double best =
      BestPinned(quick, {2, 4}, {16, 67}, seconds(6), seconds(6)).batches_per_second;
  FleetSetup slow = quick;
  slow.step = milliseconds(50);
  const double best_slow = BestPinned(slow, {4}, {67}, seconds(6), seconds(6)).batches_per_second;

  FleetWorld fleet(quick);
  fleet.Run(seconds(25));
  const Figures before = Pass(fleet, seconds(5), "5 ms");
  CHECK(before.batches_per_second > 0.95 * best);

  fleet.SetStep(slow.step);
  fleet.Run(seconds(30));
  const Figures slowly = Pass(fleet, seconds(30), "50 ms, after 30 s");
  CHECK(slowly.batches_per_second > 0.95 * best_slow);
  // Workers that no loop needs now keep theirs: nobody waits there, and nobody is measured.
  CHECK(slowly.threads < 0.8 * before.threads);
  CHECK(slowly.ahead_bytes < 0.7 * before.ahead_bytes);

  fleet.SetStep(quick.step);
  fleet.Run(seconds(30));
  const Figures again = Pass(fleet, seconds(10), "5 ms again, after 30 s");
  CHECK(again.batches_per_second > 0.95 * best);
  const Figures later = Pass(fleet, seconds(20), "5 ms again, later");
  CHECK(later.batches_per_second > 0.95 * best);
  CHECK(later.most_worker_changes <= 2);
  CHECK(later.most_consumer_changes <= 2);
}

TEST_CASE(
    "hundreds of workers serve on while neighbours slow a tenth of them, and the status tells "
    "what each process decided",
    "[fleet][tune]") {
  FleetSetup setup = Large(320);
  setup.ranks = 40;
  const double best = BestPinned(setup, {4}, {16}, seconds(10), seconds(20)).batches_per_second;
  FleetWorld fleet(setup);
  fleet.Run(seconds(30));
  const Figures steady = Pass(fleet, seconds(50), "320 workers");
  CHECK(steady.batches_per_second > 0.95 * best);
  CHECK(steady.waiting < 0.01);
  CHECK(steady.most_worker_changes <= 5);
  CHECK(steady.most_consumer_changes <= 5);

  fleet.SetCpuShare(32, 0.5);
  const Figures shared = Pass(fleet, seconds(60), "a tenth has half of its CPUs");
  CHECK(shared.batches_per_second > 0.95 * best);
  CHECK(shared.most_worker_changes <= 5);
  CHECK(shared.most_consumer_changes <= 5);

  fleet.SetCpuShare(32, 1);
  const Figures back = Pass(fleet, seconds(40), "all CPUs again");
  CHECK(back.batches_per_second > 0.95 * best);
  CHECK(back.waiting < 0.01);
  CHECK(back.most_worker_changes <= 5);
  CHECK(back.most_consumer_changes <= 5);

  // A change of the last second may not have been reported yet.
  std::size_t compared = 0;
  std::string differs = CompareStatus(fleet, compared);
  for (int second = 0; !differs.empty() && second < 5; ++second) {
    fleet.Run(seconds(1));
    compared = 0;
    differs = CompareStatus(fleet, compared);
  }
  CHECK(differs == "");
  CHECK(compared > 320);
}

TEST_CASE(
    "workers for which nobody waits become as few as are needed, and more come with the demand",
    "[fleet][tune]") {
  FleetSetup setup = Large(400);
  setup.ranks = 24;
  setup.step = milliseconds(800);
  FleetWorld fleet(setup);
  const double demand = setup.consumers() / ToSeconds(setup.step);
  const double of_worker = setup.cpus / ToSeconds(setup.build);
  Autoscaler autoscaler(fleet);
  fleet.Run(seconds(50));
  const Figures idle = Pass(fleet, seconds(40), "400 workers, nobody waits");
  CHECK(idle.batches_per_second > 0.95 * demand);
  CHECK(idle.waiting < 0.01);
  // Those without consumers have nothing to measure, and may use all threads.
  std::size_t serving = 0;
  int threads = 0;
  for (const FleetWorker& worker : fleet.workers()) {
    if (worker.machine->queue().jobs() == 0) continue;
    ++serving;
    threads += worker.machine->threads();
  }
  CHECK(serving > 200);
  CHECK(threads < 0.75 * static_cast<double>(setup.cpus) * static_cast<double>(serving));
  CHECK(idle.desired == 400);

  // 3 minutes until the figure falls, and a minute until the workers have left.
  fleet.Run(seconds(190));
  const Figures few = Pass(fleet, seconds(30), "as few as are needed");
  CHECK(few.desired >= 1.2 * 0.95 * demand / of_worker);
  CHECK(few.desired <= 1.2 * 1.05 * demand / of_worker + 1);
  CHECK(few.workers == few.desired);
  CHECK(few.batches_per_second > 0.95 * demand);
  CHECK(autoscaler.changes() <= 3);

  // The loops take their steps together, so that most of them do not wait while one does. The
  // demand is seen to grow as the workers do, in several steps.
  const std::uint32_t changes = autoscaler.changes();
  const std::uint32_t turns = autoscaler.turns();
  fleet.SetStep(milliseconds(400));
  fleet.Run(seconds(520));
  const Figures more = Pass(fleet, seconds(40), "twice the demand");
  CHECK(more.workers == more.desired);
  CHECK(more.desired >= 2 * 0.9 * few.desired);
  CHECK(more.desired <= 2 * 1.2 * few.desired);
  CHECK(more.batches_per_second > 0.95 * 2 * demand);
  CHECK(autoscaler.changes() - changes <= 10);
  CHECK(autoscaler.turns() - turns <= 1);
}

}  // namespace
}  // namespace millrace::sim
