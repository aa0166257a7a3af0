// The interface to time. A clock is passed in wherever time is needed, so that tests and the
// simulator can control it.
#pragma once

#include <atomic>
#include <cstdint>

#include "common/base/time.h"

namespace millrace {

/// Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual Time Now() const = 0;
  /// Seconds since 1970 by the wall clock, which may jump. Only for terms and messages.
  virtual std::int64_t UnixSeconds() const = 0;
};

class SystemClock final : public Clock {
 public:
  Time Now() const override;
  std::int64_t UnixSeconds() const override;
};

/// A clock that stands still until a test moves it.
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
