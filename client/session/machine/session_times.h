// Times that several parts of a session's machine keep to, and how they say when they are due.
//
// Thread-compatible value types.
#pragma once

#include <algorithm>
#include <chrono>

#include "common/base/time.h"

namespace millrace::client {

/// A dispatcher, or a worker that owes something, is given up when nothing came for so long.
inline constexpr Duration kSilence = std::chrono::seconds(3);
/// A session is heard, and looks at its times, at least so often.
inline constexpr Duration kReportEvery = std::chrono::seconds(1);

/// The earliest of several times after `now`, at most kReportEvery later.
class NextDue {
 public:
  explicit NextDue(Time now) : now_(now), due_(now + kReportEvery) {}

  /// What is due already was looked at by the event before; it waits for a write or a word.
  void At(Time t) {
    if (t > now_) due_ = std::min(due_, t);
  }
  Time due() const { return due_; }

 private:
  Time now_;
  Time due_;
};

}  // namespace millrace::client
