// Keeps a flood of events out of the log.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <utility>

#include "common/system/mutex.h"

namespace millrace {

/// Lets ten lines a second through. Thread-safe.
class LogLimit {
 public:
  /// If one more line may be logged at this time: how many were kept back since the last one that
  /// was logged.
  std::optional<std::uint64_t> MayLog(std::chrono::steady_clock::time_point now) {
    MutexLock lock(mutex_);
    if (now - second_ >= std::chrono::seconds(1)) {
      second_ = now;
      lines_ = 0;
    }
    if (++lines_ <= kMostInSecond) return std::exchange(unsaid_, 0);
    ++unsaid_;
    return std::nullopt;
  }

 private:
  static constexpr int kMostInSecond = 10;

  Mutex mutex_;
  std::chrono::steady_clock::time_point second_ MILLRACE_GUARDED_BY(mutex_);
  int lines_ MILLRACE_GUARDED_BY(mutex_) = 0;
  std::uint64_t unsaid_ MILLRACE_GUARDED_BY(mutex_) = 0;
};

}  // namespace millrace
