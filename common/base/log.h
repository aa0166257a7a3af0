// What components write their events to: one line an event, none per batch.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "common/base/result.h"

namespace millrace {

enum class LogLevel { kDebug, kInfo, kWarning, kError, kOff };

/// One `key=value` of a log line.
struct LogField {
  std::string_view key;
  std::string value;
  bool quote;

  LogField(std::string_view k, std::string_view v) : key(k), value(v), quote(true) {}
  LogField(std::string_view k, const char* v) : LogField(k, std::string_view(v)) {}
  LogField(std::string_view k, const std::string& v) : LogField(k, std::string_view(v)) {}
  LogField(std::string_view k, const Status& s) : LogField(k, s.message()) {}
  template <class T>
  requires std::is_arithmetic_v<T> LogField(std::string_view k, T v)
      : key(k), value(fmt::format("{}", v)), quote(false) {}
};

/// Where a component writes its events. Thread-safe. Passed in; there is no global logger.
class Logger {
 public:
  virtual ~Logger() = default;
  /// `event` is a short fixed phrase, for example "worker joined".
  virtual void Log(LogLevel level, std::string_view event,
                   std::initializer_list<LogField> fields) = 0;

  void Debug(std::string_view event, std::initializer_list<LogField> fields = {}) {
    Log(LogLevel::kDebug, event, fields);
  }
  void Info(std::string_view event, std::initializer_list<LogField> fields = {}) {
    Log(LogLevel::kInfo, event, fields);
  }
  void Warning(std::string_view event, std::initializer_list<LogField> fields = {}) {
    Log(LogLevel::kWarning, event, fields);
  }
  void Error(std::string_view event, std::initializer_list<LogField> fields = {}) {
    Log(LogLevel::kError, event, fields);
  }
};

/// Drops everything.
std::shared_ptr<Logger> MakeNullLogger();

/// "debug", "info", "warning", "error" or "off".
Result<LogLevel> ParseLogLevel(std::string_view text);

}  // namespace millrace
