// How a command of `millrace` is added: each command is one file cmd_NAME.cc, listed in commands.h.
#pragma once

#include <functional>
#include <string>

#include "common/base/result.h"
#include "common/command_line/command_line.h"

namespace millrace::cli {

/// Exit codes, the same for every command:
///   0  success
///   1  something failed on the way
///   2  the request cannot be met as it is (a wrong path, key, port or permission)
///   3  the data are bad
int ExitCode(const Status& status);

/// The tool while it is put together. Commands add themselves to `program`; the command that is run
/// stores its outcome in `outcome`.
struct Tool {
  CommandLine program{"Millrace prepares training batches outside the trainer.", "millrace"};
  Status outcome;

  /// Adds a command: its name, one line of help, examples for --help, and its work. Register
  /// options on the returned command; `run` is called after parsing.
  CommandLine& Add(const std::string& name, const std::string& help, const std::string& examples,
                   std::function<Status()> run);
};

}  // namespace millrace::cli
