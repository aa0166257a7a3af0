// The options of a session as flags: those rows of its table that have one.
#pragma once

#include <CLI/CLI.hpp>

#include "client/session_options.h"

namespace millrace::cli {

/// Registers the flags. The values in `session` are shown as their defaults. It has to live until
/// the command line has been read.
void AddSessionFlags(CLI::App* command, SessionOptions& session);

/// Registers the flag of one option. REQUIRES: it has one.
CLI::Option* AddSessionFlag(CLI::App* command, const SessionOption& option,
                            SessionOptions& session);

}  // namespace millrace::cli
