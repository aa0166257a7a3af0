// Moments and durations, as values. Only common/system/clock.h reads them from a clock.
#pragma once

#include <chrono>
#include <compare>

namespace millrace {

using Duration = std::chrono::nanoseconds;

/// A moment on a clock that never goes back and that keeps counting while the machine sleeps
/// (CLOCK_BOOTTIME). Moments are comparable only on one host and within one boot.
struct Time {
  Duration since_boot{0};

  friend auto operator<=>(const Time&, const Time&) = default;
  friend Duration operator-(Time a, Time b) { return a.since_boot - b.since_boot; }
  friend Time operator+(Time t, Duration d) { return {t.since_boot + d}; }
};

inline double ToSeconds(Duration d) { return std::chrono::duration<double>(d).count(); }

}  // namespace millrace
