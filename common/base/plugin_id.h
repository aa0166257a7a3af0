// The name of a plugin where datasets are named.
#pragma once

#include <string_view>

namespace millrace {

/// As a dataset, a plugin has the id "plugin:NAME". No other id can have a colon.
inline constexpr std::string_view kPluginIdPrefix = "plugin:";

}  // namespace millrace
