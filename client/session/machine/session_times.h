// Intervals that several components of a session's machine use, and NextDue, which finds when the
// machine has to act next.
//
// Thread-compatible value types.
#pragma once

#include <algorithm>
#include <chrono>

#include "common/base/time.h"

namespace millrace::client {

/// The session gives up a dispatcher, or a worker that owes something, if nothing came from it for
/// this long.
inline constexpr Duration kSilence = std::chrono::seconds(3);
/// A session reports, and checks its times, at least this often.
inline constexpr Duration kReportEvery = std::chrono::seconds(1);

/// The earliest of several times after `now`, at most kReportEvery later.
class NextDue {
 public:
  explicit NextDue(Time now) : now_(now), due_(now + kReportEvery) {}

  /// Ignores a time that is not after `now`: while the machine handled the event at `now`, it did
  /// all that was due. The rest waits for a write to end or a message to come, not for a time.
  void At(Time t) {
    if (t > now_) due_ = std::min(due_, t);
  }
  Time due() const { return due_; }

 private:
  Time now_;
  Time due_;
};

}  // namespace millrace::client
