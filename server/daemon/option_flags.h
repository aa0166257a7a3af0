// Options as flags of a command line: one flag for each row of the table, and --dataset.
#pragma once

#include <string>
#include <vector>

#include "common/base/result.h"
#include "server/daemon/options.h"

namespace CLI {
class App;
}

namespace millrace {

/// What the flags of one command line gave.
struct OptionFlags {
  std::vector<std::string> datasets;  // ID=DIR
  OptionTexts texts;                  // of all others

  /// InvalidArgument for a dataset that is not ID=DIR, or is given twice.
  Result<OptionTexts> Texts() const;
};

/// Adds to `command` the flags of the options that `role` has. A flag that is given more than once
/// has its last value. `flags` has to outlive the command.
void AddOptionFlags(CLI::App& command, Role role, OptionFlags& flags);

}  // namespace millrace
