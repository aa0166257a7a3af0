// A clock for tests.
#pragma once

#include <atomic>
#include <cstdint>

#include "common/base/time.h"
#include "common/system/clock.h"

namespace millrace {

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
