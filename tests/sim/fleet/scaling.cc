#include "tests/sim/fleet/scaling.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "tests/sim/fleet/fleet.h"
#include "tests/sim/fleet/scenarios.h"

namespace millrace::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// A fleet of workers with one thread. Its loops take batches as they come, `ahead` of them fit a
/// consumer's memory.
FleetSetup Of(std::uint32_t workers, std::uint32_t consumers, double batch_seconds,
              std::uint64_t ahead = 33) {
  FleetSetup setup;
  setup.workers = workers;
  setup.jobs = 1;
  setup.ranks = consumers;
  setup.cpus = 1;
  setup.threads = 1;
  setup.build =
      std::chrono::duration_cast<Duration>(std::chrono::duration<double>(batch_seconds));
  setup.step = Duration{0};
  setup.batch_bytes = 100'000;
  setup.ahead_bytes = ahead * setup.batch_bytes;
  return setup;
}

/// Batches that are made so quickly that a consumer's link would limit larger ones.
FleetSetup Tiny(double batch_seconds) {
  FleetSetup setup = Of(4, 1, batch_seconds);
  setup.batch_bytes = 1000;
  setup.ahead_bytes = 2000 * setup.batch_bytes;
  return setup;
}

/// The rate of all loops between two times, of that of `ideal` workers that never idle.
double RatioOf(FleetWorld& fleet, const FleetSetup& setup, double ideal, Duration from,
               Duration measured) {
  fleet.Run(from);
  fleet.Mark();
  fleet.Run(measured);
  const double ratio =
      fleet.Measure().batches_per_second * ToSeconds(setup.build) / ideal;
  // A fleet that breaks a promise is of no use, however quick it is.
  return fleet.failure().empty() ? ratio : std::numeric_limits<double>::quiet_NaN();
}

double Steady(const FleetSetup& setup, double batches_before, double batches) {
  FleetWorld fleet(setup);
  const auto of_batch = std::chrono::duration<double>(setup.build);
  return RatioOf(fleet, setup, setup.workers,
                 seconds(8) + std::chrono::duration_cast<Duration>(of_batch * batches_before),
                 std::chrono::duration_cast<Duration>(of_batch * batches));
}

double Joined() {
  const FleetSetup setup = Of(4, 1, 0.8);
  FleetWorld fleet(setup);
  fleet.Run(seconds(20));
  fleet.AddWorkers(4);
  return RatioOf(fleet, setup, 8, seconds(7), seconds(30));
}

double HalfSlow() {
  FleetSetup setup = Of(64, 1, 0.8);
  setup.worker_memory_bytes = 16 * setup.batch_bytes;
  FleetWorld fleet(setup);
  fleet.SetSlower(32, 10);
  return RatioOf(fleet, setup, 35.2, seconds(40), seconds(60));
}

double SlowSuddenly() {
  const FleetSetup setup = Of(8, 1, 0.8);
  FleetWorld fleet(setup);
  fleet.Run(seconds(20));
  fleet.SetSlower(4, 10);
  return RatioOf(fleet, setup, 4.4, Duration{0}, seconds(60));
}

double Cold() {
  FleetSetup setup = Of(256, 64, 0.8);
  setup.cold = true;
  setup.starts_within = seconds(3);
  FleetWorld fleet(setup);
  return RatioOf(fleet, setup, 256, seconds(10), seconds(10));
}

double DifferByNature() {
  FleetSetup setup = Of(16, 1, 0.8);
  setup.sigma = 1;
  setup.build_spread = 0;
  // One batch in a thousand takes 20 means. Whoever builds it, all that come after it wait, so a few
  // of them have to fit into what is measured.
  return Steady(setup, 20, 500);
}

double OwnHostAndOthers() {
  FleetSetup setup = Of(5, 1, 0.8);
  setup.own_workers = 1;
  return Steady(setup, 7, 40);
}

/// Steps of a job for each build; half of them were built for the other one.
double Twins() {
  FleetSetup setup = Of(24, 1, 0.8);
  setup.jobs = 2;
  setup.twins = true;
  setup.apart = milliseconds(2500);
  FleetWorld fleet(setup);
  fleet.Run(seconds(20));
  fleet.Mark();
  const std::uint64_t builds = fleet.builds();
  fleet.Run(seconds(60));
  const double steps = fleet.Measure().batches_per_second * 60 / 2;
  return steps / static_cast<double>(fleet.builds() - builds);
}

/// How many of 8 workers a loop leaves alone that needs one of them; 0 if it waits meanwhile.
double NeedsOne() {
  FleetSetup setup = Of(8, 1, 0.8);
  setup.step = setup.build;
  FleetWorld fleet(setup);
  fleet.Run(seconds(20));
  fleet.Mark();
  std::vector<std::uint64_t> before;
  for (const FleetWorker& worker : fleet.workers()) before.push_back(worker.builds);
  fleet.Run(seconds(60));
  double idle = 0;
  for (std::size_t i = 0; i < before.size(); ++i) {
    if (fleet.workers()[i].builds == before[i]) ++idle;
  }
  return fleet.Measure().waiting > 0 ? 0 : idle;
}

/// The rates of jobs of priority 1 and 4 whose builds take equally long, beside what is due to them:
/// the smaller one.
double Priorities() {
  FleetSetup setup = Of(8, 1, 0.8);
  setup.jobs = 2;
  setup.of_jobs = {{.priority = 1}, {.priority = 4}};
  FleetWorld fleet(setup);
  fleet.Run(seconds(20));
  fleet.Mark();
  fleet.Run(seconds(60));
  double least = std::numeric_limits<double>::infinity();
  for (const FleetConsumer& consumer : fleet.consumers()) {
    const double due = setup.OfJob(consumer.job).priority / 5.0 * 8 * 60 / 0.8;
    least = std::min(least, static_cast<double>(consumer.taken - consumer.taken_before) / due);
  }
  return least;
}

/// A job of priority 1 beside one of priority 4 with batches 20 times as long. What its longest time
/// without a batch is allowed to be, beside what it is.
double ShortBesideLong() {
  FleetSetup setup = Of(8, 1, 0.5);
  setup.jobs = 2;
  setup.of_jobs = {{.priority = 1}, {.priority = 4, .build = 20}};
  FleetWorld fleet(setup);
  fleet.Run(seconds(60));
  fleet.Mark();
  fleet.Run(seconds(200));
  const FleetConsumer& low = fleet.consumers()[0];
  const double share = 1.0 / 5;
  const double longest = ToSeconds(low.longest_gap);
  const double rate = static_cast<double>(low.taken - low.taken_before) * 0.5 / (200 * share * 8);
  return rate < 0.9 ? rate : 2 * (ToSeconds(setup.build) / share) / longest;
}

/// An autoscaler that looks each 15 s and ignores a tenth follows a need that changes. Of the time
/// in which the fleet has to have its last size: how often it has taken less, the worst change; 0 if
/// it turned back on its way, or if loops wait afterwards.
double Autoscaled() {
  FleetSetup setup = Of(64, 1, 1.6);
  setup.jobs = 16;
  setup.ahead_bytes.reset();
  const auto step_for = [&](double need) {
    return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(
        setup.jobs * 1.2 * ToSeconds(setup.build) / need));
  };
  setup.step = step_for(64);
  FleetWorld fleet(setup);
  Autoscaler autoscaler(
      fleet, {.every = seconds(15), .tolerance = 0.1, .takes = seconds(5), .varies = seconds(3)});
  fleet.Run(seconds(60));
  struct Change {
    double need;
    double within;  // seconds
  };
  double worst = std::numeric_limits<double>::infinity();
  for (const Change& change : {Change{128, 120}, Change{64, 240}, Change{256, 120 + 45}}) {
    const Time began = fleet.timeline().now();
    const std::uint32_t turns = autoscaler.turns();
    fleet.SetStep(step_for(change.need));
    fleet.Run(std::chrono::duration_cast<Duration>(std::chrono::duration<double>(change.within)));
    fleet.Mark();
    fleet.Run(seconds(120));
    const Figures figures = fleet.Measure();
    const double took = std::max(1.0, ToSeconds(autoscaler.changed() - began));
    const bool turned = autoscaler.turns() - turns > 1;
    const bool fits = std::abs(figures.workers / change.need - 1) < 0.2;
    fmt::print("need {}: {} workers after {:.0f} s, {:.3f} of the time waited{}\n", change.need,
               figures.workers, took, figures.waiting, turned ? ", turned" : "");
    worst = std::min(worst, turned || !fits || figures.waiting > 0.1 ? 0 : change.within / took);
  }
  return worst;
}

/// 16 loops need five sixths of what 128 workers make: the share of the time that they do not wait.
double Paced() {
  FleetSetup setup = Of(128, 1, 1.6);
  setup.jobs = 16;
  setup.step = std::chrono::duration_cast<Duration>(setup.build * setup.jobs * 1.2 / 128);
  FleetWorld fleet(setup);
  fleet.Run(seconds(25));
  fleet.Mark();
  fleet.Run(seconds(60));
  return 1 - fleet.Measure().waiting;
}

/// One of 16 loops takes batches as they come, and the others hardly any.
double OneOfManyHungry() {
  FleetSetup setup = Of(64, 1, 0.8);
  setup.jobs = 16;
  setup.step = seconds(20);
  setup.of_jobs = {{.step = 0}};
  FleetWorld fleet(setup);
  return RatioOf(fleet, setup, setup.workers, seconds(40), seconds(30));
}

/// Four ranks read windows of 16 places over data that no host maps.
FleetSetup InWindows(double step_seconds) {
  FleetSetup setup = Of(16, 4, 0.8);
  setup.window_units = 16;
  setup.step =
      std::chrono::duration_cast<Duration>(std::chrono::duration<double>(step_seconds));
  return setup;
}

/// Loops that need a quarter of the workers: windows for each worker that fetches one; 0 if a loop
/// waits.
double WindowsAtHome() {
  FleetWorld fleet(InWindows(0.8));
  fleet.Run(seconds(30));
  fleet.Mark();
  fleet.Run(seconds(120));
  if (fleet.Measure().waiting > 0.01) return 0;
  return static_cast<double>(fleet.windows()) / static_cast<double>(fleet.fetches());
}

double DispatcherAway() {
  const FleetSetup setup = Of(8, 1, 0.8);
  FleetWorld fleet(setup);
  fleet.Run(seconds(20));
  fleet.StopDispatcher();
  return RatioOf(fleet, setup, 8, Duration{0}, seconds(30));
}

}  // namespace

std::vector<ScalingBar> QuickBars() {
  return {
      {"8 workers", 0.9, [] { return Steady(Of(8, 1, 0.8), 10, 60); }},
      {"24 workers", 0.9, [] { return Steady(Of(24, 1, 0.8), 10, 60); }},
      {"4 join 4, from 5 s after they are ready", 0.9, Joined},
      {"half of 8 become 10 times slower", 0.8, SlowSuddenly},
      {"1 worker on the trainer's host and 4 elsewhere", 0.9, OwnHostAndOthers},
      {"a loop that needs 1 of 8 workers: workers that do nothing", 6, NeedsOne},
      {"twins 2.5 s apart: steps for a build", 1 / 1.1, Twins},
      {"the dispatcher is away for 30 s", 0.95, DispatcherAway},
      {"jobs of priority 1 and 4: what each has of its share", 0.85, Priorities},  // 3.4 to 4.6
      // 1 is aimed at. Builds are not interrupted, so a turn can come as late as the end of a long one.
      {"priority 1 beside batches 20 times as long: 2 batch times of its share, of the longest wait",
       0.5, ShortBesideLong},
      {"one of 16 loops takes all it can get of 64 workers", 0.85, OneOfManyHungry},
      {"16 loops that need 5/6 of 128 workers: share of the time that they do not wait", 0.95, Paced},
      {"windows over data that no host maps: windows for each worker that fetches one", 0.8,
       WindowsAtHome},
      {"16 workers, windows over data that no host maps", 0.9,
       [] { return Steady(InWindows(0), 10, 60); }},
      {"64 workers, half of them 10 times slower, with memory for 16 batches", 0.9, HalfSlow},
      {"16 workers, batches that differ by nature", 0.85, DifferByNature},
      {"4 workers, batches of 1 ms", 0.95, [] { return Steady(Tiny(0.001), 0, 5000); }},
      {"4 workers, batches of 0.2 ms", 0.95, [] { return Steady(Tiny(0.0002), 0, 5000); }},
      {"256 workers and 64 trainers start within 6 s, from 4 s after that", 0.9, Cold},
  };
}

std::vector<ScalingBar> LargeBars() {
  std::vector<ScalingBar> bars = {
      {"autoscaling from 64 to 128, 64 and 256 workers: time allowed, of that taken", 1, Autoscaled},
  };
  for (const double batch_seconds : {0.05, 0.8, 15.0}) {
    for (const std::uint32_t consumers : {1, 8}) {
      bars.push_back({fmt::format("256 workers, {} consumers, batches of {} s", consumers,
                                  batch_seconds),
                      0.9, [=] {
                        return Steady(Of(256, consumers, batch_seconds), 10,
                                      batch_seconds < 0.1 ? 100 : 20);
                      }});
    }
  }
  for (const bool together : {false, true}) {
    // Loops that step together wait for the slowest of 64 batches each time: memory for 4 batches
    // does not even that out, memory for 33, as elsewhere, does.
    bars.push_back({fmt::format("256 workers, 64 consumers{}, batches of 15 s",
                                together ? " that step together" : ""),
                    0.9, [=] {
                      FleetSetup setup = Of(256, 64, 15, together ? 33 : 4);
                      if (!together) std::swap(setup.jobs, setup.ranks);
                      return Steady(setup, 10, 20);
                    }});
  }
  return bars;
}

}  // namespace millrace::sim
