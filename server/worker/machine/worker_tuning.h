// Tunes how many threads of a worker build (docs/tuning.md): as few as keep consumers from waiting.
// The worker waits for nobody, so it counts its consumers' waits: the time in which the next batch
// of one of them was not built yet.
//
// Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "common/base/log.h"
#include "common/base/time.h"
#include "common/transport/convert/tuning.h"
#include "common/tune/tuner.h"
#include "millrace/v1/dispatcher.pb.h"

namespace millrace {

class WorkerTuning {
 public:
  /// `threads`: as many as there are, at least 1. They are the limit, and the first value.
  WorkerTuning(int threads, bool pinned);

  /// REQUIRES: before all other calls.
  void Start(Time now) { began_ = counted_until_ = now; }

  /// How many threads may build.
  int threads() const { return static_cast<int>(settings_[kThreads].value); }

  /// A thread asked for a batch to build. `began`: whether it got one; `waits`: whether a consumer
  /// waits for a batch.
  void OnAsked(bool began, bool waits, Time now);
  /// A build has ended. `mostly_python`: processes of plugins took most of it.
  void OnEnded(bool mostly_python, Time now);
  /// Once a second at least. `has_work`: whether there are consumers; without them nothing is
  /// tuned, and all threads may build. Returns whether threads() has changed.
  bool Tick(bool has_work, Time now, Logger& log);

  /// Adds the settings and the last decisions.
  void AddTo(v1::Tuning& tuning, Time now) const { ToProto(settings_, tuner_, now, tuning); }
  /// Counts the changes of what AddTo adds.
  std::uint64_t changes() const { return changes_; }

 private:
  static constexpr std::size_t kThreads = 0;

  void CountUntil(Time now);
  void Propose(double used);

  tune::Tuner tuner_;
  std::vector<tune::Setting> settings_;
  Time began_;  // of the second that is counted
  Time counted_until_;
  int building_ = 0;
  bool waits_ = false;
  double used_seconds_ = 0;  // of threads
  double waited_seconds_ = 0;
  std::uint64_t built_ = 0;
  std::uint64_t built_in_python_ = 0;
  std::deque<double> used_;  // threads, in each of the last seconds
  std::uint64_t changes_ = 1;
};

}  // namespace millrace
