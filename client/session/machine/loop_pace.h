// How long the training loop takes for a step, and so when it needs which step.
//
// Between two steps, a loop may wait for the other ranks of its job, who wait for their batches: no
// rank can tell. So a loop that has waited for batches itself is taken to need the next ones
// sooner. Otherwise all ranks of a job that lacks batches would ask for no more than they get.
//
// Not thread-safe: part of the session's state machine.
#pragma once

#include <algorithm>
#include <array>
#include <bitset>
#include <cstddef>
#include <cstdint>

#include "common/base/mutant.h"
#include "common/base/time.h"

namespace millrace::client {

class LoopPace {
 public:
  static constexpr std::size_t kTimes = 64;

  /// The loop asks for the next step. Only the first of several calls between two OnTaken counts.
  /// `built`: a worker has it, so workers do not cause a wait for it.
  void OnAsks(Time now, bool built = false) {
    if (asks_) return;
    built_ = built;
    if (!IsMutant(Mutant::kLoopWaitsCounted)) Count(now);
    asks_ = true;
    asked_ = now;
  }
  /// The loop takes the step. Time that it waited does not count.
  void OnTaken(Time now) {
    if (!asks_ || IsMutant(Mutant::kLoopWaitsCounted)) Count(now);
    const bool waited =
        asks_ && !built_ && known() && ToSeconds(now - asked_) > usual_ / kStepsForAWait;
    waited_[taken_steps_++ % kTimes] = waited;
    asks_ = false;
    taken_ = now;
  }
  /// This process stood still for `more`, which is not time of a step.
  void StoodStill(Duration more) {
    if (taken_ != Time{}) taken_ = taken_ + more;
    asked_ = asked_ + more;
  }

  /// Whether the loop has made a step.
  bool known() const { return count_ > 0; }
  /// The mean of the last kTimes times from taking a step to asking for the next one; 0 before the
  /// first.
  double step_seconds() const { return mean_; }
  /// Seconds until the loop needs the step that comes `ahead` steps after the next one.
  double NeededIn(std::uint64_t ahead, Time now) const {
    return Rest(now) + static_cast<double>(ahead) * usual_seconds(now) /
                           static_cast<double>(1 + waited_.count());
  }
  /// The same for a loop that does not wait.
  double UsuallyNeededIn(std::uint64_t ahead, Time now) const {
    return Rest(now) + static_cast<double>(ahead) * usual_seconds(now);
  }
  /// Seconds from one step to the next one, for a loop that does not wait. The first step takes at
  /// least as long as it has taken until now.
  double usual_seconds(Time now) const {
    return known() || asks_ || taken_ == Time{} ? usual_ : ToSeconds(now - taken_);
  }

 private:
  double Rest(Time now) const {
    return asks_ ? 0 : std::max(0.0, usual_ - ToSeconds(now - taken_));
  }
  void Count(Time now) {
    if (taken_ == Time{}) return;
    times_[count_++ % kTimes] = ToSeconds(now - taken_);
    const std::size_t count = std::min(count_, kTimes);
    // A single long step, for a compiler or a validation between two epochs, says nothing about
    // when the others are needed. If it counted, too few workers would build for them.
    const std::size_t long_ones = count < 2 ? 0 : (count + kTimesForALong - 1) / kTimesForALong;
    std::array<double, kTimes> sorted = times_;
    const auto end = sorted.begin() + static_cast<std::ptrdiff_t>(count);
    const auto first_long = end - static_cast<std::ptrdiff_t>(long_ones);
    if (long_ones > 0) std::nth_element(sorted.begin(), first_long, end);
    double sum = 0;
    for (auto time = sorted.begin(); time != first_long; ++time) sum += *time;
    usual_ = sum / static_cast<double>(count - long_ones);
    for (auto time = first_long; time != end; ++time) sum += *time;
    mean_ = sum / static_cast<double>(count);
  }

  /// One step in this many may be long without a change of the usual pace.
  static constexpr std::size_t kTimesForALong = 16;
  /// A wait counts if it is longer than this part of a step.
  static constexpr double kStepsForAWait = 10;

  std::array<double, kTimes> times_{};
  std::size_t count_ = 0;
  double mean_ = 0;
  double usual_ = 0;  // the mean without the longest ones
  std::bitset<kTimes> waited_;  // whether it waited for each of the last kTimes steps
  std::size_t taken_steps_ = 0;
  bool asks_ = true;  // the loop has begun by asking
  Time asked_;
  bool built_ = false;  // then
  Time taken_;
};

}  // namespace millrace::client
