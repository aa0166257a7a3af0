// How long the training loop takes for a step, and so when it needs which step.
//
// Not thread-safe: part of the session's state machine.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "common/base/time.h"

namespace millrace::client {

class LoopPace {
 public:
  /// The loop asks for the next step. Only the first of several calls between two OnTaken counts.
  void OnAsks(Time now) {
    if (asks_) return;
    asks_ = true;
    if (taken_ == Time{}) return;
    double& place = times_[count_++ % times_.size()];
    sum_ += ToSeconds(now - taken_) - place;
    place = ToSeconds(now - taken_);
  }
  /// The loop takes the step. Time that it waited does not count.
  void OnTaken(Time now) {
    OnAsks(now);
    asks_ = false;
    taken_ = now;
  }

  /// The mean of the last 64 times from taking a step to asking for the next one; 0 before the
  /// first.
  double step_seconds() const {
    if (count_ == 0) return 0;
    return std::max(0.0, sum_ / static_cast<double>(std::min(count_, times_.size())));
  }
  /// Seconds until the loop needs the step that comes `ahead` steps after the next one.
  double NeededIn(std::uint64_t ahead, Time now) const {
    const double step = step_seconds();
    const double rest = asks_ ? 0 : std::max(0.0, step - ToSeconds(now - taken_));
    return rest + static_cast<double>(ahead) * step;
  }

 private:
  std::array<double, 64> times_{};
  std::size_t count_ = 0;
  double sum_ = 0;
  bool asks_ = true;  // the loop has begun by asking
  Time taken_;
};

}  // namespace millrace::client
