#include "server/dispatcher/machine/measured_rates.h"

#include <limits>

#include <catch2/catch.hpp>

namespace millrace {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

/// A loop that reports once a second.
struct ReportingLoop {
  LoopDemand demand;
  LoopTotals totals{.step_seconds = 0.1};

  void Run(int seconds, std::uint64_t batches_a_second, double waited_share = 0) {
    for (int i = 0; i < seconds; ++i) {
      totals.at = totals.at + std::chrono::seconds(1);
      totals.batches += batches_a_second;
      totals.waited_seconds += waited_share;
      demand.Add(totals);
    }
  }
};

/// A worker of 4 threads that reports once a second.
struct ReportingWorker {
  WorkerRate rate;
  WorkerTotals totals{.threads = 4};

  void Run(int seconds, std::uint64_t built, double seconds_of_each) {
    for (int i = 0; i < seconds; ++i) {
      totals.at = totals.at + std::chrono::seconds(1);
      totals.built += built;
      totals.build_seconds += static_cast<double>(built) * seconds_of_each;
      rate.Add(totals);
    }
  }
};

TEST_CASE("a loop's demand is known with the time of its steps", "[desired_workers]") {
  ReportingLoop loop;
  loop.totals.step_seconds = 0;
  loop.Run(30, 10);
  CHECK_FALSE(loop.demand.batches_per_second());
  loop.totals.step_seconds = 0.1;
  loop.Run(1, 10);
  CHECK(*loop.demand.batches_per_second() == Approx(10));
  loop.totals.step_seconds = 1e-300;
  loop.Run(1, 10);
  CHECK(*loop.demand.batches_per_second() == Approx(1e6));
}

TEST_CASE("a loop that waits wants no fewer batches", "[desired_workers]") {
  ReportingLoop loop;
  loop.Run(30, 2, 0.8);
  CHECK(*loop.demand.batches_per_second() == Approx(10));
  loop.Run(100, 0, 1);
  CHECK(*loop.demand.batches_per_second() == Approx(10));
  loop.totals.waits = true;  // and what it has waited is not counted yet
  loop.Run(100, 0, 0);
  CHECK(*loop.demand.batches_per_second() == Approx(10));
}

TEST_CASE("a loop that does something else for long wants next to nothing", "[desired_workers]") {
  ReportingLoop loop;
  loop.Run(30, 10);
  loop.Run(100, 0);
  CHECK(*loop.demand.batches_per_second() == Approx(0.01));
  loop.Run(1, 10);
  CHECK(*loop.demand.batches_per_second() == Approx(10));
}

TEST_CASE("a loop's totals may go back or be no numbers", "[desired_workers]") {
  ReportingLoop loop;
  loop.Run(30, 10);
  loop.totals.batches = 0;
  loop.Run(1, 0);
  CHECK(*loop.demand.batches_per_second() == Approx(10));
  loop.totals.waited_seconds = kNan;
  loop.Run(4, 0);
  CHECK(*loop.demand.batches_per_second() == Approx(0.25));
}

TEST_CASE("a worker could build as fast as its threads", "[desired_workers]") {
  ReportingWorker worker;
  worker.totals.at = Time{std::chrono::seconds(1)};
  worker.rate.Add(worker.totals);
  CHECK_FALSE(worker.rate.batches_per_second());
  worker.Run(60, 2, 0.1);
  CHECK(*worker.rate.batches_per_second() == Approx(40));
}

TEST_CASE("a new dispatcher begins with all that a worker has built", "[desired_workers]") {
  ReportingWorker worker;
  worker.totals.built = 1'000'000;
  worker.totals.build_seconds = 100'000;
  worker.Run(1, 0, 0);
  CHECK(*worker.rate.batches_per_second() == Approx(40));
  worker.Run(60, 1, 0.4);  // what it builds now counts more
  CHECK(*worker.rate.batches_per_second() == Approx(10));
  worker.Run(1000, 0, 0);  // its rate stays while it builds nothing
  CHECK(*worker.rate.batches_per_second() == Approx(10));
}

TEST_CASE("a worker whose batches take minutes has a rate", "[desired_workers]") {
  ReportingWorker worker;
  worker.Run(60, 1, 0.1);
  for (int i = 0; i < 10; ++i) {
    worker.Run(99, 0, 0);
    worker.Run(1, 4, 100);
  }
  CHECK(*worker.rate.batches_per_second() == Approx(0.04).epsilon(0.01));
}

TEST_CASE("a worker's totals may be no numbers", "[desired_workers]") {
  ReportingWorker worker;
  worker.totals.build_seconds = kNan;
  worker.Run(60, 10, 0.1);
  CHECK_FALSE(worker.rate.batches_per_second());
  worker = ReportingWorker();
  worker.Run(60, 10, 0);
  CHECK_FALSE(worker.rate.batches_per_second());
  worker = ReportingWorker();
  worker.Run(60, 10, 0.1);
  const double before = worker.totals.build_seconds;
  worker.totals.build_seconds = std::numeric_limits<double>::infinity();
  worker.Run(1, 10, 0.1);
  CHECK(*worker.rate.batches_per_second() == Approx(40).epsilon(0.1));
  worker.totals.build_seconds = before;
  worker.Run(300, 2, 0.4);
  CHECK(*worker.rate.batches_per_second() == Approx(10).epsilon(0.01));
}

}  // namespace
}  // namespace millrace
