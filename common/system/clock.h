// The interface to time. A clock is passed in wherever time is needed, so that tests and the
// simulator can control it (tests/support/fake_clock.h).
#pragma once

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

}  // namespace millrace
