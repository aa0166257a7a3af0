// Measures how a builder thread spends its time, and knows which stage it is at.
//
// Not thread-safe, except stage(); each builder thread needs its own.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "server/pipeline/plan.h"

namespace millrace {

/// The stages of a pipeline that take a worker's time, in the order in which they run. A single
/// closure is too short to be timed alone, so kClosureStage includes the fields.
enum TimedStage : std::size_t {
  kShuffleStage,
  kClosureStage,
  kTensorsStage,  // only of plans that compute tensors
  kBatchStage,
  kTimedStages
};
inline constexpr std::string_view kTimedStageNames[kTimedStages] = {"shuffle", "closure", "tensors",
                                                                    "batch"};

/// Sums of seconds, one for each stage. A batch takes three readings of the clock, or four.
class StageClock {
 public:
  explicit StageClock(bool computes_tensors) : computes_tensors_(computes_tensors) {}

  /// Starts the clock with this stage. The time before this call counts for no stage.
  void Begin(TimedStage stage) {
    last_ = std::chrono::steady_clock::now();
    stage_.store(stage, std::memory_order_relaxed);
  }
  /// Counts the time since Begin or the last Done for this stage, and goes to the next one.
  void Done(TimedStage stage) {
    const auto now = std::chrono::steady_clock::now();
    seconds_[stage] += std::chrono::duration<double>(now - last_).count();
    last_ = now;
    const bool skips = stage == kClosureStage && !computes_tensors_;
    stage_.store(stage + (skips ? 2 : 1), std::memory_order_relaxed);
  }
  /// The stage that runs now; empty if none does. Any thread may ask.
  std::string_view stage() const {
    const std::size_t stage = stage_.load(std::memory_order_relaxed);
    return stage < kTimedStages ? kTimedStageNames[stage] : std::string_view();
  }
  std::vector<BatchScratch::StageTime> times() const {
    std::vector<BatchScratch::StageTime> times;
    for (std::size_t stage = 0; stage < kTimedStages; ++stage) {
      if (stage == kTensorsStage && !computes_tensors_) continue;
      times.push_back({std::string(kTimedStageNames[stage]), seconds_[stage]});
    }
    return times;
  }

 private:
  bool computes_tensors_;
  std::chrono::steady_clock::time_point last_;
  std::array<double, kTimedStages> seconds_{};
  std::atomic<std::size_t> stage_ = kTimedStages;
};

}  // namespace millrace
