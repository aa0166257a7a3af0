#include <catch2/catch.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <random>
#include <vector>

#include "common/base/log.h"
#include "millrace/v1/dispatcher.pb.h"
#include "server/worker/machine/worker_tuning.h"

namespace millrace {
namespace {

/// A worker with threads that build for one consumer, in steps of a millisecond. Builds take
/// build_ms, more or less; the consumer takes a batch every step_ms and has room for some.
class Fleet {
 public:
  explicit Fleet(int threads, bool pinned = false)
      : tuning_({.threads = threads, .threads_given = pinned}) {
    tuning_.Start(now_);
  }

  int build_ms = 20;
  int step_ms = 50;
  int room = 8;        // batches
  double cores = 100;  // builds go slower if more threads than these build

  /// The share of the time in which the consumer waited.
  double Run(double seconds) {
    waited_ms_ = 0;
    const auto steps = static_cast<int>(seconds * 1000);
    for (int i = 0; i < steps; ++i) Millisecond();
    return static_cast<double>(waited_ms_) / steps;
  }
  int threads() const { return tuning_.threads(); }
  int most_building() const { return most_building_; }
  /// Changes of the number of threads so far.
  int changes() const { return changes_; }
  v1::Tuning Tuning() const {
    v1::Tuning tuning;
    tuning_.AddTo(tuning, now_);
    return tuning;
  }
  void LeaveAndComeBack() {
    tuning_.Tick(false, now_ = now_ + std::chrono::seconds(1), *log_);
    stock_ = 0;
  }

 private:
  void Millisecond() {
    now_ = now_ + std::chrono::milliseconds(1);
    const double pace =
        std::min(1.0, cores / static_cast<double>(std::max<std::size_t>(1, builds_.size())));
    for (double& left : builds_) left -= pace;
    const auto done =
        static_cast<int>(std::erase_if(builds_, [](double left) { return left <= 0; }));
    for (int i = 0; i < done; ++i) tuning_.OnBuilt(false);
    for (int i = 0; i < done; ++i) tuning_.OnLeft(now_);
    stock_ += done;
    if (busy_ms_ > 0) --busy_ms_;
    if (busy_ms_ == 0 && stock_ > 0) {
      --stock_;
      busy_ms_ = step_ms;
    }
    const bool waits = stock_ == 0;
    waited_ms_ += busy_ms_ == 0 ? 1 : 0;
    while (static_cast<int>(builds_.size()) < tuning_.threads() &&
           stock_ + static_cast<int>(builds_.size()) < room) {
      builds_.push_back(build_ms * std::uniform_real_distribution<double>(0.7, 1.3)(random_));
      tuning_.OnAsked(true, waits, now_);
    }
    tuning_.OnAsked(false, waits, now_);
    most_building_ = std::max(most_building_, static_cast<int>(builds_.size()));
    const int before = tuning_.threads();
    tuning_.Tick(true, now_, *log_);
    changes_ += tuning_.threads() != before ? 1 : 0;
  }

  std::shared_ptr<Logger> log_ = MakeNullLogger();
  WorkerTuning tuning_;
  Time now_;
  std::mt19937_64 random_{1};
  std::vector<double> builds_;
  int stock_ = 0;
  int busy_ms_ = 0;
  int waited_ms_ = 0;
  int most_building_ = 0;
  int changes_ = 0;
};

TEST_CASE("threads that nobody needs rest, and nobody waits because of that", "[worker][tune]") {
  Fleet fleet(16);
  CHECK(fleet.Run(2) < 0.05);
  CHECK(fleet.Run(60) == 0);
  // 20 ms each 50 ms: 0.4 threads.
  CHECK(fleet.threads() == 2);
  CHECK(fleet.changes() == 1);
  CHECK(fleet.Run(600) == 0);
  CHECK(fleet.changes() == 1);
}

TEST_CASE("all threads build where the consumer waits", "[worker][tune]") {
  Fleet fleet(8);
  fleet.step_ms = 1;
  fleet.Run(600);
  CHECK(fleet.threads() == 8);
  CHECK(fleet.changes() == 0);
  CHECK(fleet.Tuning().decisions_size() == 0);
}

TEST_CASE("after a change of the step time the threads follow within half a minute",
          "[worker][tune]") {
  Fleet fleet(8);
  fleet.build_ms = 20;
  for (int round = 0; round < 3; ++round) {
    INFO("round " << round);
    fleet.step_ms = 50;
    fleet.Run(60);
    CHECK(fleet.threads() <= 3);
    CHECK(fleet.Run(30) < 0.01);
    fleet.step_ms = 4;  // five threads have to build
    fleet.Run(30);
    CHECK(fleet.threads() >= 6);
    CHECK(fleet.Run(60) < 0.01);
  }
}

TEST_CASE("one of two CPUs is left to others where one thread suffices", "[worker][tune]") {
  Fleet fleet(2);
  fleet.build_ms = 20;
  fleet.step_ms = 24;
  fleet.Run(60);
  CHECK(fleet.threads() == 1);
  CHECK(fleet.Run(60) < 0.01);
  fleet.step_ms = 15;
  fleet.Run(30);
  CHECK(fleet.threads() == 2);
}

TEST_CASE("in ten steady minutes the threads change at most five times", "[worker][tune]") {
  for (const int step_ms : {1, 2, 3, 4, 5, 7, 10, 15, 20, 50, 200}) {
    for (const double cores : {2.0, 100.0}) {
      Fleet fleet(8);
      fleet.step_ms = step_ms;
      fleet.cores = cores;
      fleet.Run(60);
      const int before = fleet.changes();
      fleet.Run(600);
      INFO("a step of " << step_ms << " ms, " << cores << " cores");
      CHECK(fleet.changes() - before <= 5);
    }
  }
}

TEST_CASE("pinned threads and the limit stay", "[worker][tune]") {
  Fleet pinned(4, true);
  pinned.Run(100);
  CHECK(pinned.threads() == 4);
  CHECK(pinned.Tuning().settings(0).pinned());
  Fleet fleet(4);
  fleet.step_ms = 1;
  fleet.Run(100);
  fleet.step_ms = 100;
  fleet.Run(100);
  CHECK(fleet.most_building() <= 4);
  CHECK(fleet.Tuning().settings(0).most() == 4);
}

TEST_CASE("a worker whose consumers have left begins anew", "[worker][tune]") {
  Fleet fleet(16);
  fleet.Run(60);
  REQUIRE(fleet.threads() == 2);
  fleet.LeaveAndComeBack();
  CHECK(fleet.threads() == 16);
  // The story stays.
  CHECK(fleet.Tuning().decisions_size() == 1);
}

TEST_CASE("threads that rest in the mean are all needed by consumers that ask in bursts",
          "[worker][tune]") {
  const auto log = MakeNullLogger();
  Time now{std::chrono::seconds(1000)};
  WorkerTuning tuning({.threads = 8});
  tuning.Start(now);
  const auto pass = [&](int ms) { now = now + std::chrono::milliseconds(ms); };
  // Nobody waits, and one thread builds.
  for (int second = 0; second < 40; ++second) {
    tuning.OnAsked(true, false, now);
    pass(1000);
    tuning.OnBuilt(false);
    tuning.OnLeft(now);
    tuning.Tick(true, now, *log);
  }
  REQUIRE(tuning.threads() == 2);
  // Two batches are wanted at once, and then a third, which waits for a thread.
  tuning.OnAsked(true, true, now);
  tuning.OnAsked(true, true, now);
  pass(300);
  tuning.OnBuilt(false);
  tuning.OnLeft(now);
  tuning.OnBuilt(false);
  tuning.OnLeft(now);
  tuning.OnAsked(false, false, now);
  pass(700);
  tuning.Tick(true, now, *log);
  CHECK(tuning.threads() == 8);
}

}  // namespace
}  // namespace millrace
