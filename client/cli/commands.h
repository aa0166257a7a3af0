// Every command of `millrace`, one line each.
#pragma once

#include "client/cli/command.h"

namespace millrace::cli {

void AddDigestCommand(Tool& tool);
inline void AddAllCommands([[maybe_unused]] Tool& tool) {
}

}  // namespace millrace::cli
