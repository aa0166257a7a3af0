// The interface through which components log events: one line per event, and no event per batch.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>

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
      : key(k), value(Text(Widened(v))), quote(false) {}

 private:
  /// Converts the value to one of a few types, so that the text is made in log.cc and not in every
  /// caller.
  template <class T>
  static auto Widened(T v) {
    if constexpr (std::floating_point<T> || std::same_as<T, bool> || std::same_as<T, char>) {
      return v;
    } else if constexpr (std::signed_integral<T>) {
      return std::int64_t{v};
    } else {
      return std::uint64_t{v};
    }
  }
  static std::string Text(bool v);
  static std::string Text(char v);
  static std::string Text(std::int64_t v);
  static std::string Text(std::uint64_t v);
  static std::string Text(float v);
  static std::string Text(double v);
};

/// Receives the events of a component. Thread-safe. It is passed in; there is no global logger.
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

/// A logger that drops every event.
std::shared_ptr<Logger> MakeNullLogger();

/// "debug", "info", "warning", "error" or "off".
Result<LogLevel> ParseLogLevel(std::string_view text);

}  // namespace millrace
