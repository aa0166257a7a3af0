// Keeps an event that is logged again and again from filling the log.
//
// Thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "common/base/log.h"
#include "common/system/clock.h"
#include "common/system/mutex.h"

namespace millrace {

/// Passes on the first of several events that are equal, with all their fields, and then at most
/// one in kApart. That one says how many there were since the one before it.
class RepeatLimit final : public Logger {
 public:
  static constexpr Duration kApart = std::chrono::seconds(10);

  RepeatLimit(std::shared_ptr<Logger> to, std::shared_ptr<const Clock> clock)
      : to_(std::move(to)), clock_(std::move(clock)) {}

  void Log(LogLevel level, std::string_view event, std::initializer_list<LogField> fields) override;

 private:
  struct Said {
    Time at;
    std::uint64_t since = 0;  // equal events since then, which were not passed on
  };

  /// Forgets events that are not being repeated.
  void Forget(Time now) MILLRACE_REQUIRES(mutex_);

  const std::shared_ptr<Logger> to_;
  const std::shared_ptr<const Clock> clock_;
  Mutex mutex_;
  std::map<std::string, Said> said_ MILLRACE_GUARDED_BY(mutex_);  // by the event's text
};

}  // namespace millrace
