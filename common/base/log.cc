#include "common/base/log.h"

#include <algorithm>

#include <fmt/core.h>

#include "common/base/log_level_names.h"

namespace millrace {
namespace {

class NullLogger final : public Logger {
 public:
  void Log(LogLevel, std::string_view, std::initializer_list<LogField>) override {}
};

}  // namespace

std::string LogField::Text(bool v) { return v ? "true" : "false"; }
std::string LogField::Text(char v) { return std::string(1, v); }
std::string LogField::Text(std::int64_t v) { return std::to_string(v); }
std::string LogField::Text(std::uint64_t v) { return std::to_string(v); }
std::string LogField::Text(float v) { return fmt::format("{}", v); }
std::string LogField::Text(double v) { return fmt::format("{}", v); }

std::shared_ptr<Logger> MakeNullLogger() { return std::make_shared<NullLogger>(); }

Result<LogLevel> ParseLogLevel(std::string_view text) {
  const auto found = std::find(kLogLevelNames.begin(), kLogLevelNames.end(), text);
  if (found == kLogLevelNames.end()) {
    return InvalidArgument("log level '" + std::string(text) +
                           "' is unknown: expected debug, info, warning, error or off");
  }
  return static_cast<LogLevel>(found - kLogLevelNames.begin());
}

}  // namespace millrace
