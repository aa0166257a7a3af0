// The names of the log levels, as options and messages write them.
#pragma once

#include <array>
#include <string_view>

#include "common/base/log.h"

namespace millrace {

/// In the order of LogLevel.
inline constexpr std::array<std::string_view, 5> kLogLevelNames = {"debug", "info", "warning",
                                                                   "error", "off"};

inline std::string_view LogLevelName(LogLevel level) {
  return kLogLevelNames.at(static_cast<std::size_t>(level));
}

}  // namespace millrace
