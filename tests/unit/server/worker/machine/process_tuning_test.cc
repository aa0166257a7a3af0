#include <catch2/catch.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/log.h"
#include "common/base/protocol_limits.h"
#include "millrace/v1/dispatcher.pb.h"
#include "server/worker/machine/worker_tuning.h"

namespace millrace {
namespace {

constexpr std::int64_t kMiB = 1 << 20;

/// A worker that builds for one consumer in steps of a millisecond. A build takes native_ms in a
/// thread, and then python_ms in a process of a plugin, for which it waits if none is free.
/// Processes start when they are needed, in start_ms, and have a MiB each.
class PluginFleet {
 public:
  explicit PluginFleet(int threads, WorkerTuning::Options options = {})
      : tuning_([&] {
          options.threads = threads;
          return options;
        }()) {
    tuning_.Start(now_);
  }

  int native_ms = 0;
  int python_ms = 20;
  int start_ms = 200;
  int step_ms = 50;
  int room = 8;    // batches
  int places = 8;  // for processes
  bool processes_given = false;
  std::optional<std::int64_t> limit;  // bytes that all processes may have

  /// The share of the time in which the consumer waited.
  double Run(double seconds) {
    int waited = 0;
    const auto steps = static_cast<int>(seconds * 1000);
    for (int i = 0; i < steps; ++i) waited += Millisecond() ? 1 : 0;
    return static_cast<double>(waited) / steps;
  }
  int threads() const { return tuning_.threads(); }
  int running() const { return running_; }
  int most_running = 0;
  /// The most processes that may run; 0 if nobody says.
  int processes() const {
    const auto most = tuning_.MostProcesses();
    return most.empty() ? 0 : most.begin()->second;
  }
  WorkerTuning& tuning() { return tuning_; }
  v1::Tuning Told() const {
    v1::Tuning told;
    tuning_.AddTo(told, now_);
    return told;
  }
  int Changes(const std::string& setting) const {
    int changes = 0;
    const v1::Tuning told = Told();
    for (const v1::TuneDecision& decision : told.decisions()) {
      changes += decision.setting() == setting ? 1 : 0;
    }
    return changes;
  }

 private:
  struct Build {
    int native_left;
    int python_left;
    bool has_process = false;
  };

  void LookAtPools() {
    PoolUse use;
    use.number = 7;
    use.object = "speech:Corpus";
    use.places = places;
    use.processes_given = processes_given;
    use.running = running_;
    use.starting = starting_left_ > 0 ? 1 : 0;
    use.busy_seconds = busy_seconds_;
    use.memory_bytes = static_cast<std::uint64_t>(running_ * kMiB);
    std::optional<std::int64_t> left;
    if (limit) left = *limit - running_ * kMiB;
    tuning_.SetPools({use}, left, *log_);
    if (processes() > 0) running_ = std::min(running_, processes());
  }

  bool Millisecond() {
    now_ = now_ + std::chrono::milliseconds(1);
    const int most = processes_given ? places : std::max(1, processes());
    if (starting_left_ > 0 && --starting_left_ == 0) ++running_;
    int free = running_;
    for (const Build& build : builds_) free -= build.has_process ? 1 : 0;
    for (Build& build : builds_) {
      if (build.native_left > 0) {
        --build.native_left;
      } else if (build.has_process) {
        --build.python_left;
        busy_seconds_ += 0.001;
      } else if (free > 0) {
        --free;
        build.has_process = true;
      } else if (running_ < most && starting_left_ == 0) {
        starting_left_ = start_ms;
      }
    }
    const auto done =
        static_cast<int>(std::erase_if(builds_, [](const Build& b) { return b.python_left <= 0; }));
    for (int i = 0; i < done; ++i) tuning_.OnBuilt(2 * python_ms > native_ms);
    for (int i = 0; i < done; ++i) tuning_.OnLeft(now_);
    stock_ += done;
    if (busy_ms_ > 0) --busy_ms_;
    if (busy_ms_ == 0 && stock_ > 0) {
      --stock_;
      busy_ms_ = step_ms;
    }
    const bool waits = stock_ == 0;
    while (static_cast<int>(builds_.size()) < tuning_.threads() &&
           stock_ + static_cast<int>(builds_.size()) < room) {
      builds_.push_back({native_ms, python_ms});
      tuning_.OnAsked(true, waits, now_);
    }
    tuning_.OnAsked(false, waits, now_);
    most_running = std::max(most_running, running_);
    if (now_ - looked_ >= std::chrono::seconds(1)) {
      looked_ = now_;
      LookAtPools();
    }
    tuning_.Tick(true, now_, *log_);
    return busy_ms_ == 0;
  }

  std::shared_ptr<Logger> log_ = MakeNullLogger();
  WorkerTuning tuning_;
  Time now_;
  Time looked_;
  std::vector<Build> builds_;
  int running_ = 1;
  int starting_left_ = 0;
  double busy_seconds_ = 0;
  int stock_ = 0;
  int busy_ms_ = 0;
};

TEST_CASE("processes that nobody needs end, and nobody waits because of that",
          "[worker][tune][plugin]") {
  PluginFleet fleet(8);
  fleet.Run(120);
  // 20 ms each 50 ms: 0.4 processes.
  CHECK(fleet.processes() <= 2);
  CHECK(fleet.running() <= 2);
  CHECK(fleet.Run(60) == 0);
}

TEST_CASE("processes follow the step time within half a minute", "[worker][tune][plugin]") {
  PluginFleet fleet(8);
  for (int round = 0; round < 3; ++round) {
    INFO("round " << round);
    fleet.step_ms = 50;
    fleet.Run(90);
    CHECK(fleet.running() <= 3);
    fleet.step_ms = 4;  // five processes have to build
    fleet.Run(30);
    CHECK(fleet.running() >= 5);
    CHECK(fleet.Run(60) < 0.01);
  }
}

TEST_CASE("where python is a small part, few processes serve many threads",
          "[worker][tune][plugin]") {
  PluginFleet fleet(16);
  fleet.native_ms = 38;
  fleet.python_ms = 2;
  fleet.step_ms = 9;  // 4.4 threads and 0.2 processes
  fleet.Run(180);
  CHECK(fleet.threads() >= 5);
  REQUIRE(fleet.threads() < 16);
  CHECK(fleet.processes() <= 2);
  CHECK(fleet.Run(60) < 0.01);
  // Now five processes have to build. All threads build, too, but what they wait for are processes.
  fleet.native_ms = 0;
  fleet.python_ms = 40;
  const int known = fleet.Told().decisions_size();
  fleet.Run(30);
  const v1::Tuning told = fleet.Told();
  REQUIRE(told.decisions_size() > known);
  CHECK(told.decisions(known).setting() == "processes of speech:Corpus");
  CHECK(told.decisions(known).waited_for() == "python");
  CHECK(told.decisions(known).outcome() == "kept");
  CHECK(fleet.processes() >= 5);
  CHECK(fleet.Run(60) < 0.01);
}

TEST_CASE("processes that start slowly are not judged before they run", "[worker][tune][plugin]") {
  PluginFleet fleet(8);
  fleet.start_ms = 20'000;
  fleet.native_ms = 38;
  fleet.python_ms = 2;
  fleet.step_ms = 9;
  fleet.Run(180);
  REQUIRE(fleet.processes() <= 2);
  fleet.native_ms = 0;
  fleet.python_ms = 30;
  fleet.Run(120);
  CHECK(fleet.running() >= 4);
}

TEST_CASE("in ten steady minutes the processes change at most five times",
          "[worker][tune][plugin]") {
  for (const int step_ms : {1, 3, 4, 5, 7, 10, 20, 50, 200}) {
    PluginFleet fleet(8);
    fleet.step_ms = step_ms;
    fleet.Run(90);
    const int before = fleet.Changes("processes of speech:Corpus") + fleet.Changes("threads");
    fleet.Run(600);
    INFO("a step of " << step_ms << " ms");
    const int after = fleet.Changes("processes of speech:Corpus") + fleet.Changes("threads");
    CHECK(after - before <= 5);
  }
}

TEST_CASE("processes never take more memory than is left for them", "[worker][tune][plugin]") {
  PluginFleet fleet(8);
  fleet.step_ms = 1;
  fleet.limit = 5 * kMiB;
  fleet.Run(60);
  CHECK(fleet.most_running <= 5);
  CHECK(fleet.most_running >= 4);
  // Something else needs memory now.
  fleet.limit = 2 * kMiB;
  fleet.Run(2);
  CHECK(fleet.running() <= 2);
  fleet.limit = std::nullopt;
  fleet.Run(40);
  CHECK(fleet.running() == 8);
}

TEST_CASE("a number of processes that was given stays, and so do all without tuning",
          "[worker][tune][plugin]") {
  PluginFleet fleet(8);
  fleet.processes_given = true;
  fleet.Run(120);
  CHECK(fleet.processes() == 0);
  CHECK(fleet.Told().settings_size() == 2);
  PluginFleet pinned(8, {.tune = false});
  pinned.Run(120);
  CHECK(pinned.processes() == 0);
  const v1::Tuning told = pinned.Told();
  CHECK(told.settings_size() == 2);
  for (const v1::TuneSetting& setting : told.settings()) CHECK(setting.pinned());
  CHECK(told.decisions_size() == 0);
}

TEST_CASE("pools come and go, and each keeps what is known of it", "[worker][tune][plugin]") {
  PluginFleet fleet(8);
  fleet.Run(120);
  const int few = fleet.processes();
  REQUIRE(few < 8);
  PoolUse old;
  old.number = 7;
  old.object = "speech:Corpus";
  old.places = 8;
  old.processes_given = false;
  old.running = few;
  PoolUse fresh = old;
  fresh.number = 8;
  fresh.object = "augment:crop";
  fresh.places = 2;
  WorkerTuning& tuning = fleet.tuning();
  const auto log = MakeNullLogger();
  tuning.SetPools({fresh, old}, std::nullopt, *log);
  CHECK(tuning.MostProcesses().at(7) == few);
  CHECK(tuning.MostProcesses().at(8) == std::min(2, fleet.threads()));
  tuning.SetPools({}, std::nullopt, *log);
  CHECK(tuning.MostProcesses().empty());
  CHECK(fleet.Told().settings_size() == 1);
}

TEST_CASE("a dispatcher takes what is told of many pools with long names",
          "[worker][tune][plugin]") {
  const auto log = MakeNullLogger();
  WorkerTuning tuning({.threads = 8});
  std::vector<PoolUse> pools(100);
  for (std::size_t i = 0; i < pools.size(); ++i) {
    pools[i].number = i + 1;
    for (int k = 0; k < 200; ++k) pools[i].object += "\u00e4";
  }
  tuning.SetPools(pools, std::nullopt, *log);
  v1::Tuning told;
  tuning.AddTo(told, Time{});
  REQUIRE(told.settings_size() == kMaxTuneSettings);
  const std::string& name = told.settings(1).name();
  CHECK(name.size() <= kMaxTuneText);
  CHECK(name.size() > kMaxTuneText - 2);
  // "processes of " has 13 bytes, and each of the letters two.
  CHECK((name.size() - 13) % 2 == 0);
}

TEST_CASE("threads follow the CPUs that the process may use", "[worker][tune]") {
  const auto log = MakeNullLogger();
  WorkerTuning tuning({.threads = 8});
  CHECK(tuning.SetCpus(3, *log));
  CHECK(tuning.threads() == 3);
  CHECK(tuning.most_threads() == 3);
  CHECK_FALSE(tuning.SetCpus(3, *log));
  CHECK(tuning.SetCpus(12, *log));
  CHECK(tuning.threads() == 12);
  WorkerTuning given({.threads = 8, .threads_given = true});
  CHECK_FALSE(given.SetCpus(3, *log));
  CHECK(given.threads() == 8);
}

}  // namespace
}  // namespace millrace
