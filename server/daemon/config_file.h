// The configuration file of `millraced`: YAML with the options of the table as keys.
//
// Free functions; thread-safe.
#pragma once

#include <string>

#include "common/base/result.h"
#include "server/daemon/options.h"

namespace millrace {

/// What a configuration file gives. InvalidArgument "<file>:<line>:<column>: …" for unknown keys
/// (with the nearest and all known ones), keys that are there twice, and what is not one value;
/// NotFound if there is no such file. Values are not checked.
Result<OptionTexts> ReadConfigFile(const std::string& path);

/// The options in force as a configuration file, which reads back as the same options.
std::string PrintConfig(const DaemonOptions& options);

}  // namespace millrace
