// A logger that keeps repetitions out of a log: a repeated warning becomes one line with a count,
// and a text of many lines, such as a traceback, is logged once.
//
// Thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/log.h"
#include "common/base/time.h"
#include "common/system/clock.h"
#include "common/system/mutex.h"

namespace millrace {

class RepeatFilter final : public Logger {
 public:
  /// A line is not logged again in this time. The number of repetitions is logged after it.
  static constexpr Duration kBetween = std::chrono::seconds(10);
  /// A text of many lines may come in full again after this time.
  static constexpr Duration kToldFor = std::chrono::minutes(10);
  /// The number of lines that are told apart, and of texts that are remembered.
  static constexpr std::size_t kMostLines = 256;
  static constexpr std::size_t kMostTexts = 64;

  RepeatFilter(std::shared_ptr<Logger> to, std::shared_ptr<const Clock> clock)
      : to_(std::move(to)), clock_(std::move(clock)) {}

  /// Passes on events below warnings as they are. The others repeat one another if level, event and
  /// all fields are the same.
  void Log(LogLevel level, std::string_view event, std::initializer_list<LogField> fields) override;

  /// Logs the counts whose time is over. Every call of Log does so first; if calls may be rare,
  /// call this about once per second.
  void Tick();

 private:
  /// A line that was logged, with the data for logging its count.
  struct Line {
    LogLevel level;
    std::string event;
    std::vector<std::pair<std::string, std::string>> texts;
    Time end;
    std::uint64_t repeated = 0;
  };

  /// Whether the line is new, or cannot be remembered.
  bool IsNew(LogLevel level, std::string_view event, const std::vector<LogField>& fields)
      MILLRACE_REQUIRES(mutex_);
  /// Cuts off the text after the first line, if it was logged before.
  void CutIfTold(std::string& text) MILLRACE_REQUIRES(mutex_);

  const std::shared_ptr<Logger> to_;
  const std::shared_ptr<const Clock> clock_;
  Mutex mutex_;
  std::map<std::string, Line> lines_ MILLRACE_GUARDED_BY(mutex_);
  std::deque<std::pair<std::string, Time>> told_ MILLRACE_GUARDED_BY(mutex_);  // oldest first
};

}  // namespace millrace
