#include "common/system/stderr_logger.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include "common/base/json_text.h"

namespace millrace {
namespace {

bool NeedsQuotes(std::string_view text) {
  return text.empty() || text.find_first_of(" \t\n\"=\\") != std::string_view::npos;
}

spdlog::level::level_enum ToSpdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
    case LogLevel::kOff:
      break;
  }
  return spdlog::level::off;
}

class StderrLogger final : public Logger {
 public:
  StderrLogger(std::string component, LogLevel level, bool json)
      : json_(json),
        component_(std::move(component)),
        logger_(component_, std::make_shared<spdlog::sinks::stderr_sink_mt>()) {
    logger_.set_level(ToSpdlog(level));
    logger_.flush_on(spdlog::level::debug);
    logger_.set_pattern(json ? R"({"time":"%Y-%m-%dT%H:%M:%S.%e%z","level":"%l",%v})"
                             : "%Y-%m-%dT%H:%M:%S.%e%z %-7l %v");
  }

  void Log(LogLevel level, std::string_view event,
           std::initializer_list<LogField> fields) override {
    if (!logger_.should_log(ToSpdlog(level))) return;
    std::string line;
    if (json_) {
      line = fmt::format("\"component\":{},\"event\":{}", JsonText(component_), JsonText(event));
      for (const LogField& f : fields) {
        line += fmt::format(",{}:{}", JsonText(f.key), f.quote ? JsonText(f.value) : f.value);
      }
    } else {
      line = fmt::format("{}: {}", component_, event);
      for (const LogField& f : fields) {
        line += fmt::format(" {}={}", f.key,
                            f.quote && NeedsQuotes(f.value) ? JsonText(f.value) : f.value);
      }
    }
    logger_.log(ToSpdlog(level), "{}", line);
  }

 private:
  const bool json_;
  const std::string component_;
  spdlog::logger logger_;
};

}  // namespace

std::shared_ptr<Logger> MakeStderrLogger(std::string component, LogLevel level, bool json) {
  return std::make_shared<StderrLogger>(std::move(component), level, json);
}

}  // namespace millrace
