// Tunes how many threads of a worker build, and how many processes its plugins have
// (docs/guides/tuning.md): as few as keep consumers from waiting. The worker waits for nobody, so
// it counts its consumers' waits: the time in which some consumer's next batch was not built yet.
//
// Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "common/base/log.h"
#include "common/base/time.h"
#include "common/transport/convert/tuning.h"
#include "common/tune/tuner.h"
#include "millrace/v1/dispatcher.pb.h"
#include "server/worker/machine/pool_use.h"

namespace millrace {

class WorkerTuning {
 public:
  struct Options {
    int threads = 1;  // at least 1: the limit at first, and the first value
    bool tune = true;
    bool threads_given = false;  // the user has set the number: it stays
  };
  explicit WorkerTuning(const Options& options);

  /// REQUIRES: before all other calls.
  void Start(Time now) { began_ = counted_until_ = now; }

  /// The number of threads that may build now, and at most.
  int threads() const { return static_cast<int>(settings_[kThreads].value); }
  int most_threads() const { return static_cast<int>(settings_[kThreads].most); }
  /// The number of processes that may run now, of each tuned pool, by its number.
  std::map<std::uint64_t, int> MostProcesses() const;
  /// The number of processes of a pool that may run now, tuned or not; threads() for an unknown
  /// pool.
  int Processes(std::uint64_t pool) const;

  /// Sets the limit of threads that were not given. Returns whether threads() has changed.
  bool SetCpus(int cpus, Logger& log);
  /// Sets all pools, always in the same order, and how many more bytes all their processes may
  /// take; nullopt: there is no limit.
  void SetPools(std::vector<PoolUse> pools, std::optional<std::int64_t> room, Logger& log);

  /// A thread asked for a batch to build. `began`: whether it got one; `waits`: whether a consumer
  /// waits for a batch.
  void OnAsked(bool began, bool waits, Time now);
  /// A thread helps with a batch that another thread began.
  void OnHelps(Time now) {
    CountUntil(now);
    ++building_;
  }
  /// A thread has ended its part of a batch.
  void OnLeft(Time now) {
    CountUntil(now);
    --building_;
  }
  /// A batch is built, or cannot be. `mostly_python`: processes of plugins took most of it.
  void OnBuilt(bool mostly_python) {
    ++built_;
    if (mostly_python) ++built_in_python_;
  }
  /// Call it at least once a second. `has_work`: whether there are consumers; without them nothing
  /// is tuned, and all threads may build. Returns whether threads() has changed.
  bool Tick(bool has_work, Time now, Logger& log);

  /// Adds the settings and the last decisions.
  void AddTo(v1::Tuning& tuning, Time now) const { ToProto(settings_, tuner_, now, tuning); }
  /// Counts the changes of the values that AddTo adds.
  std::uint64_t changes() const { return changes_; }

 private:
  static constexpr std::size_t kThreads = 0;
  static constexpr std::size_t kPools = 1;  // the setting of the first pool

  /// How many threads or processes were in use, in each of the last seconds.
  class InUse {
   public:
    void Add(double used);
    void Clear() { last_.clear(); }
    bool empty() const { return last_.empty(); }
    /// Whether the last second used all of them.
    bool All(double value) const;
    /// The number that is enough for all these seconds, or `value` if that is not known or saves
    /// little. One of two CPUs is left to others if no second needed it.
    double Enough(double value, double cpus) const;

   private:
    std::deque<double> last_;
  };
  struct Pool {
    PoolUse use;
    double counted_busy = 0;  // seconds
    InUse in_use;
  };

  bool IsTuned(const PoolUse& pool) const { return tune_ && !pool.processes_given; }
  /// Changes the limit of a setting. A setting that is at its limit stays there.
  void SetLimit(tune::Setting& setting, double most);
  void KeepPools(std::vector<PoolUse> pools, Logger& log);
  void LimitPools();
  void CountUntil(Time now);
  /// Counts the use of a second, and proposes values for the settings.
  void Propose(double seconds, bool mostly_python);
  /// Restarts the tuner; a trial that ends unjudged is logged as such.
  void RestartTuner(Logger& log);
  void BeginAnew(Logger& log);

  const bool tune_;
  tune::Tuner tuner_;
  std::vector<tune::Setting> settings_;  // threads, and each pool
  std::vector<Pool> pools_;
  std::optional<std::int64_t> room_;  // bytes for more processes
  Time began_;                        // of the second that is counted
  Time counted_until_;
  int building_ = 0;
  bool waits_ = false;
  double used_seconds_ = 0;  // of threads
  double waited_seconds_ = 0;
  double waited_for_thread_seconds_ = 0;  // the part while all threads that may build did
  std::uint64_t built_ = 0;
  std::uint64_t built_in_python_ = 0;
  InUse threads_in_use_;
  std::uint64_t changes_ = 1;
};

}  // namespace millrace
