// The configuration file of `millraced`: YAML whose keys are the options of the option table.
//
// Free functions; thread-safe.
#pragma once

#include <string>

#include "common/base/result.h"
#include "server/daemon/options.h"

namespace millrace {

/// The options in a configuration file. InvalidArgument "<file>:<line>:<column>: …" for unknown
/// keys (the message suggests the nearest one and lists all), for keys that occur twice, and for
/// values that are not single. NotFound if there is no such file. Values are not checked here.
Result<OptionTexts> ReadConfigFile(const std::string& path);

/// The options in force, in the form of a configuration file. Reading it gives the same options.
std::string PrintConfig(const DaemonOptions& options);

}  // namespace millrace
