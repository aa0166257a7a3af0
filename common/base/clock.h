// Time, passed in wherever it is needed, so that tests and the simulator own it.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace millrace {

using Duration = std::chrono::nanoseconds;

/// A moment on a clock that never goes back and counts while the machine sleeps
/// (CLOCK_BOOTTIME). Comparable only with moments of the same host since its boot.
struct Time {
  Duration since_boot{0};

  friend auto operator<=>(const Time&, const Time&) = default;
  friend Duration operator-(Time a, Time b) { return a.since_boot - b.since_boot; }
  friend Time operator+(Time t, Duration d) { return {t.since_boot + d}; }
};

inline double ToSeconds(Duration d) { return std::chrono::duration<double>(d).count(); }

/// Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual Time Now() const = 0;
  /// Seconds since 1970 by the wall clock, which may jump. For terms and messages only.
  virtual std::int64_t UnixSeconds() const = 0;
};

class SystemClock final : public Clock {
 public:
  Time Now() const override;
  std::int64_t UnixSeconds() const override;
};

/// A clock that stands still until it is told to move.
class FakeClock final : public Clock {
 public:
  explicit FakeClock(std::int64_t unix_seconds = 1'700'000'000) : unix_seconds_(unix_seconds) {}

  Time Now() const override { return {Duration(now_.load())}; }
  std::int64_t UnixSeconds() const override { return unix_seconds_.load(); }

  void Advance(Duration d) { now_ += d.count(); }
  void SetUnixSeconds(std::int64_t s) { unix_seconds_ = s; }

 private:
  std::atomic<Duration::rep> now_{1'000'000'000};
  std::atomic<std::int64_t> unix_seconds_;
};

}  // namespace millrace
