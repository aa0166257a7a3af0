#include "server/dispatcher/machine/desired_workers.h"

#include <algorithm>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "common/base/protocol_limits.h"
#include "server/dispatcher/machine/status.h"
#include "server/dispatcher/service/dispatcher_metrics.h"
#include "tests/unit/server/dispatcher/machine/harness.h"

namespace millrace {
namespace {

using Catch::Contains;
using test::Harness;
using test::HelloOptions;
using test::seconds;

/// Jobs of one loop each, and workers of 4 threads that take 0.4 s for a batch: each makes 10
/// batches a second. They report once a second.
struct World {
  struct Job {
    double wanted = 0;  // batches a second, if the loop never waited
    double taken = 0;
    double waited_seconds = 0;
    double step_seconds = 0;  // as it reports; the last one while it takes nothing
    std::uint64_t session = 0;
  };
  static constexpr double kRate = 10;

  DesiredWorkers desired{0.2};
  Time now{seconds(1000)};
  std::uint32_t present = 4;
  std::map<std::string, Job> jobs;
  double built = 1000;
  std::uint64_t last_session = 0;

  Job& Begin(const std::string& name, double wanted) {
    Job& job = jobs[name];
    job.wanted = wanted;
    job.session = ++last_session;
    return job;
  }

  void Second() {
    now = now + seconds(1);
    double wanted = 0;
    for (const auto& [name, job] : jobs) wanted += job.wanted;
    const double share = wanted == 0 ? 1 : std::min(1.0, present * kRate / wanted);
    FleetSnapshot look;
    for (auto& [name, job] : jobs) {
      job.taken += job.wanted * share;
      job.waited_seconds += 1 - share;
      if (job.wanted > 0) job.step_seconds = 1 / job.wanted;
      look.loops.push_back({SessionId({1, job.session}), name,
                            LoopTotals{.at = now,
                                       .batches = static_cast<std::uint64_t>(job.taken),
                                       .waited_seconds = job.waited_seconds,
                                       .step_seconds = job.step_seconds}});
    }
    if (present > 0) built += wanted * share / present;
    const auto whole = static_cast<std::uint64_t>(built);
    for (std::uint64_t w = 0; w < present; ++w) {
      const WorkerTotals totals{now, whole, 0.4 * static_cast<double>(whole), 4};
      look.suppliers.push_back({WorkerId({2, w}), true, totals});
    }
    desired.Update(now, look);
  }
  void Run(int count) {
    for (int i = 0; i < count; ++i) Second();
  }
  std::uint32_t Of(const std::string& job) const { return desired.Find(job)->workers; }
};

/// How often the figure of a job changes in 10 minutes of this demand, after it has settled.
int ChangesIn(World& world, double settled, const std::function<double()>& demand) {
  World::Job& job = world.Begin("x", settled);
  world.Run(400);
  int changes = 0;
  std::uint32_t last = world.Of("x");
  for (int second = 0; second < 600; ++second) {
    job.wanted = demand();
    world.Second();
    changes += world.Of("x") == last ? 0 : 1;
    last = world.Of("x");
  }
  return changes;
}

TEST_CASE("a job's figure is its demand with a reserve, divided by a worker's rate",
          "[desired_workers]") {
  World world;
  world.Begin("x", 20);
  world.Run(200);
  const DesiredFigure& figure = *world.desired.Find("x");
  CHECK(figure.workers == 3);
  CHECK(*figure.demand == Approx(20));
  CHECK(*figure.worker_rate == Approx(10));
  CHECK(ArithmeticOf(figure) == "20 batches/s x 1.2 / 10 a worker = 2.4: 3 workers; 4 are there");
}

TEST_CASE("a demand around a boundary by 20 % changes a figure at most 5 times in 10 minutes",
          "[desired_workers]") {
  const auto seed = static_cast<std::uint64_t>(GENERATE(range(0, 20)));
  const double boundary = GENERATE(25.0, 250.0);  // 3 workers, and 30
  const int held = GENERATE(1, 7, 25);            // seconds between two changes of the demand
  std::mt19937_64 random(seed);
  World world;
  world.present = static_cast<std::uint32_t>(boundary / World::kRate) + 2;
  int second = 0;
  double demand = boundary;
  const int changes = ChangesIn(world, boundary, [&] {
    if (second++ % held == 0) {
      demand = boundary * std::uniform_real_distribution<double>(0.8, 1.2)(random);
    }
    return demand;
  });
  INFO("seed " << seed << ", boundary " << boundary << ", held " << held);
  CHECK(changes <= 5);
}

TEST_CASE("a demand that doubles is answered within 30 s", "[desired_workers]") {
  World world;
  World::Job& job = world.Begin("x", 32);
  world.Run(400);
  REQUIRE(world.Of("x") == 4);
  job.wanted = 64;  // more than 4 workers make, so that the loop waits
  world.Run(30);
  CHECK(world.Of("x") == 8);
}

TEST_CASE("a job that goes silent falls to one worker after three minutes", "[desired_workers]") {
  World world;
  World::Job& job = world.Begin("x", 30);
  world.Run(400);
  REQUIRE(world.Of("x") == 4);
  job.wanted = 0;
  world.Run(175);
  CHECK(world.Of("x") == 4);
  world.Run(25);
  CHECK(world.Of("x") == 1);
  // It takes nothing for 200 s: one step would take that long.
  CHECK(ArithmeticOf(*world.desired.Find("x")) ==
        "0.005 batches/s x 1.2 / 10 a worker = 0.0006: 1 worker; 4 are there");
  CHECK(world.desired.fleet().workers == 1);
}

TEST_CASE("jobs have figures of their own, and the fleet's rounds once", "[desired_workers]") {
  World world;
  world.Begin("a", 1);
  world.Begin("b", 1);
  world.Begin("c", 11);
  world.Run(200);
  CHECK(world.Of("a") == 1);
  CHECK(world.Of("b") == 1);
  CHECK(world.Of("c") == 2);
  CHECK(*world.desired.fleet().demand == Approx(13));
  CHECK(world.desired.fleet().workers == 2);
  world.jobs.erase("c");
  world.Run(1);
  CHECK(world.desired.Find("c") == nullptr);
  world.Run(200);
  CHECK(world.desired.fleet().workers == 1);
}

TEST_CASE("a line says what is not known yet, and the figure is the workers that are there",
          "[desired_workers]") {
  World world;
  world.built = 0;
  world.Begin("x", 0);
  world.Run(1);
  CHECK(ArithmeticOf(*world.desired.Find("x")) ==
        "workers may still come back to this dispatcher: 4 workers; 4 are there");
  CHECK(world.desired.is_settling());
  world.Run(15);
  CHECK_FALSE(world.desired.is_settling());
  CHECK(ArithmeticOf(*world.desired.Find("x")) ==
        "no worker has built a batch yet: 4 workers; 4 are there");
  world.Begin("x", 10);
  world.Begin("y", 0);
  world.Run(10);
  CHECK(ArithmeticOf(*world.desired.Find("y")) ==
        "no loop has told how long its steps take yet: 4 workers; 4 are there");
  world.jobs["y"].wanted = 10;
  world.Run(200);
  CHECK(world.Of("y") == 2);
}

TEST_CASE("a consumer needs no more workers than a list has members", "[desired_workers]") {
  World world;
  world.present = 3000;
  world.Begin("x", 20'000);
  world.Run(200);
  CHECK(world.Of("x") == kMaxListMembers);
  CHECK(ArithmeticOf(*world.desired.Find("x")) ==
        "20000 batches/s x 1.2 / 10 a worker = 2400, 1024 with at most 1024 a consumer: 1024 "
        "workers; 3000 are there");
  world.Begin("y", 1000);
  world.Run(200);
  CHECK(world.desired.fleet().workers == kMaxListMembers + 120);
}

TEST_CASE("a line says why a figure is not what the arithmetic gives", "[desired_workers]") {
  const auto line = [](std::uint32_t workers, double demand, std::uint32_t present) {
    return ArithmeticOf({.workers = workers,
                         .present = present,
                         .demand = demand,
                         .worker_rate = 9.8,
                         .reserve = 0.2});
  };
  CHECK(line(6, 41.7, 4) == "41.7 batches/s x 1.2 / 9.8 a worker = 5.11: 6 workers; 4 are there");
  CHECK(line(4, 41.7, 4) ==
        "41.7 batches/s x 1.2 / 9.8 a worker = 5.11: 4 workers, and 6 if that lasts 15 s; 4 are "
        "there");
  CHECK(line(8, 41.7, 4) ==
        "41.7 batches/s x 1.2 / 9.8 a worker = 5.11: 8 workers, until fewer have sufficed for 3 "
        "minutes; 4 are there");
  CHECK(line(5, 41.7, 4) ==
        "41.7 batches/s x 1.2 / 9.8 a worker = 5.11: 5 workers, more only above 5.25; 4 are "
        "there");
  CHECK(line(6, 40, 4) ==
        "40 batches/s x 1.2 / 9.8 a worker = 4.9: 6 workers, fewer only up to 4.76; 4 are there");
  CHECK(line(2, 1234.5, 1) ==
        "1234 batches/s x 1.2 / 9.8 a worker = 151, at most 2 for now: 2 workers; 1 is there");
  CHECK(line(1, 0.0123, 0) ==
        "0.0123 batches/s x 1.2 / 9.8 a worker = 0.00151: 1 worker; none is there");
}

TEST_CASE("a worker that has built nothing yet does not change the rate of one",
          "[desired_workers]") {
  World world;
  world.Begin("x", 30);
  world.Run(60);
  FleetSnapshot look;
  look.loops.push_back({SessionId({1, 1}), "x", std::nullopt});
  for (std::uint64_t w = 0; w < 9; ++w) {
    look.suppliers.push_back({WorkerId({3, w}), true, {world.now, 0, 0, 4}});
  }
  world.desired.Update(world.now + seconds(1), look);
  CHECK(*world.desired.Find("x")->worker_rate == Approx(10));
  CHECK(world.desired.Find("x")->present == 9);
}

/// A dispatcher with one worker of 2 threads, and a job of one loop.
struct Served {
  Harness h;
  StreamId worker = h.AddWorker("w1");
  StreamId stream = h.Attach(HelloOptions{.world_size = 1});
  StreamId replica = h.Attach(HelloOptions{.world_size = 1, .nonce = 'b', .replica = 1});
  v1::Report report;

  Served() {
    report.mutable_next();
    report.set_step_ms(125);
    v1::WorkRequest& work = h.workers[worker];
    work.set_threads(2);
    for (const char* stage : {"python", "batch"}) work.add_build()->set_stage(stage);
  }

  /// In every second the worker builds 4 batches, in 0.3 s in Python and 0.2 s besides. The loop
  /// takes 4, of which each keeps it busy for an eighth of a second.
  void Run(int count) {
    for (int i = 0; i < count; ++i) {
      v1::WorkRequest& work = h.workers[worker];
      for (v1::StageSeconds& stage : *work.mutable_build()) {
        stage.set_count(stage.count() + 4);
        stage.set_seconds(stage.seconds() + 4 * (stage.stage() == "python" ? 0.3 : 0.2));
      }
      v1::Counters& counters = *report.mutable_counters();
      counters.set_batches(counters.batches() + 4);
      h.Report(stream, report);
      h.Report(replica, report);
      h.Advance(seconds(1));
    }
  }
  v1::ServiceStatus Status() const { return BuildStatus(*h.dispatcher, h.options, h.now.time); }
  MetricSet Metrics() const {
    MetricSet metrics;
    AddDispatcherMetrics(*h.dispatcher, h.options, DispatcherCounters("memory"), h.now.time, 1.7e9,
                         metrics);
    return metrics;
  }
};

TEST_CASE("status and metrics have a job's figure and the fleet's", "[desired_workers][metrics]") {
  Served served;
  CHECK_FALSE(served.Status().has_desired_workers());
  served.Run(5);
  CHECK_THAT(served.Status().desired_workers().arithmetic(), Contains("may still come back"));
  CHECK(served.Metrics().values(Metric::kDesiredWorkers).empty());
  CHECK(served.Metrics().values(Metric::kFleetDesiredWorkers).empty());
  served.Run(60);
  const v1::ServiceStatus status = served.Status();
  REQUIRE(status.jobs_size() == 1);
  const v1::DesiredWorkers& desired = status.jobs(0).desired_workers();
  CHECK(desired.workers() == 2);
  CHECK(desired.present() == 1);
  CHECK(desired.demand_batches_per_second() == Approx(8));
  CHECK(desired.worker_batches_per_second() == Approx(4));
  CHECK(desired.reserve() == 0.2);
  CHECK(desired.arithmetic() ==
        "8 batches/s x 1.2 / 4 a worker = 2.4, at most 2 for now: 2 workers; 1 is there");
  CHECK(status.desired_workers().SerializeAsString() == desired.SerializeAsString());
  CHECK(served.Metrics().values(Metric::kDesiredWorkers).at({"x"}) == 2);
  CHECK(served.Metrics().values(Metric::kFleetDesiredWorkers).at({}) == 2);
}

TEST_CASE("a worker that drains or is silent is not there", "[desired_workers]") {
  Served served;
  served.Run(20);
  CHECK(served.Status().desired_workers().present() == 1);
  SECTION("draining") { served.h.workers[served.worker].set_draining(true); }
  SECTION("silent") {
    served.h.Break(served.worker);
    served.h.workers.erase(served.worker);
  }
  served.h.Advance(seconds(5));
  CHECK(served.Status().desired_workers().present() == 0);
  CHECK_THAT(served.Status().desired_workers().arithmetic(), Contains("none is there"));
}

TEST_CASE("the figure of a job ends with its sessions", "[desired_workers][metrics]") {
  Served served;
  served.Run(20);
  REQUIRE(served.Status().jobs(0).has_desired_workers());
  served.h.Bye(served.stream);
  served.h.Bye(served.replica);
  served.h.Advance(seconds(2));
  CHECK_FALSE(served.Status().jobs(0).has_desired_workers());
  CHECK(served.Metrics().values(Metric::kDesiredWorkers).empty());
}

}  // namespace
}  // namespace millrace
