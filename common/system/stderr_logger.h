// A logger that writes one line an event, `key=value` or one JSON object, by spdlog.
#pragma once

#include <memory>
#include <string>

#include "common/base/log.h"

namespace millrace {

/// Writes to stderr. `component` names the process's role in every line.
std::shared_ptr<Logger> MakeStderrLogger(std::string component, LogLevel level, bool json);

}  // namespace millrace
