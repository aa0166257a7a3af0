// `millrace`: the command-line tool. Each command is one file cmd_NAME.cc and is listed in
// commands.h.

#include <cerrno>
#include <cstdio>
#include <optional>

#include <fmt/core.h>

#include "client/cli/command.h"
#include "client/cli/commands.h"
#include "common/system/errno_status.h"
#include "common/system/malloc.h"
#include "server/files/sigbus_guard.h"

int main(int argc, char** argv) {
  millrace::KeepFreedMemory();
  using namespace millrace;
  InstallSigbusGuard();
  cli::Tool tool;
  tool.program.SetVersion(MILLRACE_VERSION);
  tool.program.RequireCommand();
  cli::AddAllCommands(tool);
  if (const std::optional<int> code = tool.program.Parse(argc, argv)) return *code;
  // Output counts only if it arrived: a full disk shows when the buffer is written.
  if ((std::fflush(stdout) != 0 || std::ferror(stdout) != 0) && tool.outcome.ok()) {
    tool.outcome = ErrnoStatus("standard output cannot be written", errno);
  }
  if (!tool.outcome.ok()) {
    fmt::print(stderr, "millrace: {}\n", tool.outcome.message());
  }
  return cli::ExitCode(tool.outcome);
}
