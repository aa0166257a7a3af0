// A logger that writes one line per event, as `key=value` pairs or as one JSON object. It uses
// spdlog.
#pragma once

#include <memory>
#include <string>

#include "common/base/log.h"

namespace millrace {

/// Writes to stderr. `component` is the role of the process; every line has it.
std::shared_ptr<Logger> MakeStderrLogger(std::string component, LogLevel level, bool json);

}  // namespace millrace
