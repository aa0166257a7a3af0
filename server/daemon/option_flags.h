// Options as flags of a command line: one flag for each row of the option table, --dataset and
// --plugin.
#pragma once

#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/command_line/command_line.h"
#include "server/daemon/options.h"

namespace millrace {

/// The values of the flags on one command line.
struct OptionFlags {
  std::vector<std::string> datasets;  // ID=DIR
  std::vector<std::string> plugins;   // NAME=FOLDER
  OptionTexts texts;                  // of all other flags

  /// InvalidArgument if a dataset is not ID=DIR, a plugin not NAME=FOLDER, or one is given twice.
  Result<OptionTexts> Texts() const;
};

/// Adds the flags of the options that `role` has to `command`. If a flag is given more than once,
/// its last value counts. `flags` has to outlive the command.
void AddOptionFlags(CommandLine& command, Role role, OptionFlags& flags);

}  // namespace millrace
