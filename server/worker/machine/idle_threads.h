// Counts the threads of a worker that have had nothing to build for a while.
//
// Not thread-safe.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/base/time.h"

namespace millrace {

class IdleThreads {
 public:
  /// A thread counts once it has had nothing to build for this long.
  static constexpr Duration kIdleAfter = std::chrono::milliseconds(50);

  void OnBegan() {
    ++building_;
    if (!since_.empty()) since_.pop_back();
  }
  void OnEnded() { --building_; }
  /// There is nothing to build for the threads that do not build now; `threads` may build.
  void OnNothing(int threads, Time now) {
    since_.resize(static_cast<std::size_t>(std::max(0, threads - building_)), now);
  }

  std::uint32_t Count(Time now) const {
    return static_cast<std::uint32_t>(std::count_if(
        since_.begin(), since_.end(), [now](Time t) { return now - t >= kIdleAfter; }));
  }

 private:
  int building_ = 0;
  /// Since when each idle thread has been idle. The thread that became idle last builds next.
  std::vector<Time> since_;
};

}  // namespace millrace
