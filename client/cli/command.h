// The shape of a command of `millrace`: one file cmd_NAME.cc and one line in main.cc each.
#pragma once

#include <functional>
#include <string>

#include <CLI/CLI.hpp>

#include "common/base/result.h"

namespace millrace::cli {

/// Exit codes, for every command: 0 success; 1 something failed on the way; 2 what was asked cannot
/// be done as it stands (a path, a key, a port, a permission); 3 the data are bad.
int ExitCode(const Status& status);

/// The tool being put together: commands add themselves to `app`, and the one that is run leaves
/// its outcome in `outcome`.
struct Tool {
  CLI::App app;
  Status outcome;

  /// Adds a command: name, one-line help, examples for --help, and what it does. Register options
  /// on the returned App; `run` is called after parsing.
  CLI::App* Add(const std::string& name, const std::string& help, const std::string& examples,
                std::function<Status()> run);
};

/// Adds --address, of one dispatcher or several.
void AddAddress(CLI::App* command, std::string& address);

}  // namespace millrace::cli
