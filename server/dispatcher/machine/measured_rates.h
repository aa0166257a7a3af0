// Rates from the reports of loops and workers: the demand of a loop if it never waited, and the
// rate of a worker.
//
// Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>

#include "common/base/time.h"

namespace millrace {

/// The report of a training loop.
struct LoopTotals {
  Time at;                    // when it came
  std::uint64_t batches = 0;  // that the loop has taken since its session began
  double waited_seconds = 0;  // since its session began
  bool waits = false;         // now
  double step_seconds = 0;    // mean of its last steps, without waits; 0: not known yet
};

/// The batches per second that a training loop takes if it never waits: one in the time of a step.
/// A step under way that takes longer than the mean counts too, so that the demand of a loop that
/// does something else for minutes is almost 0.
class LoopDemand {
 public:
  /// Totals that are not newer than the last ones are ignored.
  void Add(const LoopTotals& totals);
  /// Unset before the time of a step is known.
  std::optional<double> batches_per_second() const { return batches_per_second_; }

 private:
  std::optional<LoopTotals> last_;
  LoopTotals
      taken_;  // the first totals with the batches of the last ones, or the last ones in a wait
  std::optional<double> batches_per_second_;
};

/// The totals of a worker since its start.
struct WorkerTotals {
  Time at;                    // when they came
  std::uint64_t built = 0;    // batches
  double build_seconds = 0;   // of builder threads, all stages together, also in Python
  std::uint32_t threads = 1;  // that build
};

/// The batches per second that a worker could build: its threads, divided by the mean time of a
/// build. Builds of the last half minute or so count most.
class WorkerRate {
 public:
  /// Totals that are not newer than the last ones are ignored.
  void Add(const WorkerTotals& totals);
  /// Above 0; unset before the first batch was built.
  std::optional<double> batches_per_second() const;

 private:
  std::optional<WorkerTotals> last_;
  double seconds_per_batch_ = 0;  // of one thread; 0: not known yet
  // Sums over the past, in which older seconds count less.
  double built_ = 0;
  double build_seconds_ = 0;
};

}  // namespace millrace
