// Keeps a flood of events out of the log.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <utility>

#include "common/base/time.h"
#include "common/system/mutex.h"

namespace millrace {

/// Lets one line through per ten seconds. Thread-safe.
class LogLimit {
 public:
  static constexpr Duration kBetween = std::chrono::seconds(10);

  /// If one more line may be logged at this time: how many were kept back since the last logged
  /// line.
  std::optional<std::uint64_t> MayLog(Time now) {
    MutexLock lock(mutex_);
    if (last_ && now - *last_ < kBetween) {
      ++unsaid_;
      return std::nullopt;
    }
    last_ = now;
    return std::exchange(unsaid_, 0);
  }

 private:
  Mutex mutex_;
  std::optional<Time> last_ MILLRACE_GUARDED_BY(mutex_);
  std::uint64_t unsaid_ MILLRACE_GUARDED_BY(mutex_) = 0;
};

}  // namespace millrace
