// What a builder thread's time goes into.
//
// Not thread-safe: one a thread.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "server/pipeline/plan.h"

namespace millrace {

/// The stages of a pipeline that take a worker's time, in the order in which they run. One closure
/// is too short to be timed alone: fields count with it.
enum TimedStage : std::size_t { kShuffleStage, kClosureStage, kBatchStage, kTimedStages };
inline constexpr std::string_view kTimedStageNames[kTimedStages] = {"shuffle", "closure", "batch"};

/// Seconds, stage after stage: three looks at the clock a batch.
class StageClock {
 public:
  /// What comes now counts for no stage before the next Done.
  void Begin() { last_ = std::chrono::steady_clock::now(); }
  /// All since Begin or the last Done went into this stage.
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
