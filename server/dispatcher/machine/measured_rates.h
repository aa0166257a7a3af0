// Rates from the totals that loops and workers report: what a loop would take if it never waited,
// and what a worker can make.
//
// Not thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "common/base/time.h"

namespace millrace {

/// The totals of a training loop since its session began.
struct LoopTotals {
  Time at;                    // when they came
  std::uint64_t batches = 0;  // that the loop has taken
  double waited_seconds = 0;  // for workers: not for its own host, and not for its Welcome
};

/// The batches a second that a training loop takes while it does not wait, in a sliding window.
class LoopDemand {
 public:
  static constexpr Duration kWindow = std::chrono::seconds(15);

  /// Totals that are not newer than the last ones are ignored.
  void Add(const LoopTotals& totals);
  /// Unset before the first window is over. Stays as it was while the loop does nothing but wait:
  /// that says nothing about what it would take.
  std::optional<double> batches_per_second() const { return batches_per_second_; }

 private:
  std::vector<LoopTotals> samples_;  // of the window, oldest first
  std::optional<double> batches_per_second_;
};

/// The totals of a worker since its start.
struct WorkerTotals {
  Time at;                    // when they came
  std::uint64_t built = 0;    // batches
  double build_seconds = 0;   // of builder threads, all stages together, those in Python too
  std::uint64_t sent = 0;     // batches, without those that needed no build of their own
  std::uint32_t threads = 1;  // that build
};

/// The batches a second that a worker makes while it is asked for more. If its builder threads are
/// busy, that is what it sends. Otherwise it is what they could build: their number, divided by the
/// mean time of a build. Figures of the last half minute or so count most.
class WorkerRate {
 public:
  /// Totals that are not newer than the last ones are ignored.
  void Add(const WorkerTotals& totals);
  /// Above 0; unset before the first batch was built.
  std::optional<double> batches_per_second() const;

 private:
  std::optional<WorkerTotals> last_;
  double seconds_per_batch_ = 0;  // of one thread; 0: not known yet
  // Sums over the past, in which a second counts less the longer it is ago.
  double seconds_ = 0;
  double built_ = 0;
  double build_seconds_ = 0;
  double sent_ = 0;
};

}  // namespace millrace
