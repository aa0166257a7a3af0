#include "common/base/log.h"

namespace millrace {
namespace {

class NullLogger final : public Logger {
 public:
  void Log(LogLevel, std::string_view, std::initializer_list<LogField>) override {}
};

}  // namespace

std::shared_ptr<Logger> MakeNullLogger() { return std::make_shared<NullLogger>(); }

Result<LogLevel> ParseLogLevel(std::string_view text) {
  if (text == "debug") return LogLevel::kDebug;
  if (text == "info") return LogLevel::kInfo;
  if (text == "warning") return LogLevel::kWarning;
  if (text == "error") return LogLevel::kError;
  if (text == "off") return LogLevel::kOff;
  return InvalidArgument("log level '" + std::string(text) +
                         "' is unknown: expected debug, info, warning, error or off");
}

}  // namespace millrace
