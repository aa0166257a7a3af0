// The options of a session as flags, for the rows of its table that have a flag.
#pragma once

#include "client/session_option_table.h"
#include "common/command_line/command_line.h"
#include "common/command_line/parameter_flag.h"

namespace millrace::cli {

/// Registers the flags. The values in `session` are shown as their defaults. It has to live until
/// the command line has been read.
void AddSessionFlags(CommandLine& command, SessionOptions& session);

/// Registers the flag of one option. REQUIRES: the option has a flag.
CommandOption AddSessionFlag(CommandLine& command, const SessionOption& option,
                             SessionOptions& session);

}  // namespace millrace::cli
