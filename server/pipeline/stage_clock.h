// Measures how a builder thread spends its time.
//
// Not thread-safe; each thread needs its own.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "server/pipeline/plan.h"

namespace millrace {

/// The stages of a pipeline that take a worker's time, in the order in which they run. A single
/// closure is too short to be timed alone, so kClosureStage includes the fields.
enum TimedStage : std::size_t { kShuffleStage, kClosureStage, kBatchStage, kTimedStages };
inline constexpr std::string_view kTimedStageNames[kTimedStages] = {"shuffle", "closure", "batch"};

/// Sums of seconds, one for each stage. A batch takes three readings of the clock.
class StageClock {
 public:
  /// Starts the clock. The time before this call counts for no stage.
  void Begin() { last_ = std::chrono::steady_clock::now(); }
  /// Counts the time since Begin or the last Done for this stage.
  void Done(TimedStage stage) {
    const auto now = std::chrono::steady_clock::now();
    seconds_[stage] += std::chrono::duration<double>(now - last_).count();
    last_ = now;
  }
  std::vector<BatchScratch::StageTime> times() const {
    std::vector<BatchScratch::StageTime> times;
    for (std::size_t stage = 0; stage < kTimedStages; ++stage) {
      times.push_back({std::string(kTimedStageNames[stage]), seconds_[stage]});
    }
    return times;
  }

 private:
  std::chrono::steady_clock::time_point last_;
  std::array<double, kTimedStages> seconds_{};
};

}  // namespace millrace
