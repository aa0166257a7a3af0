// `millrace`: the command-line tool. Each command is one file cmd_NAME.cc and is listed in
// commands.h.

#include <cerrno>
#include <cstdio>
#include <string>

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
  tool.app.name("millrace");
  tool.app.description("Millrace prepares training batches outside the trainer.");
  tool.app.set_version_flag("--version", MILLRACE_VERSION);
  tool.app.require_subcommand(1);
  cli::AddAllCommands(tool);
  try {
    tool.app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    // CLI11 alone would only say that a command is missing.
    std::string known;
    bool found = argc < 2 || argv[1][0] == '-';
    for (const CLI::App* command : tool.app.get_subcommands([](CLI::App*) { return true; })) {
      found = found || command->get_name() == argv[1];
      known += (known.empty() ? "" : ", ") + command->get_name();
    }
    if (!found) {
      std::fprintf(stderr, "millrace: no command '%s'; expected one of %s\n", argv[1],
                   known.c_str());
      return 2;
    }
    const int code = tool.app.exit(e);
    return code == 0 ? 0 : 2;
  }
  // Output counts only if it arrived: a full disk shows when the buffer is written.
  if ((std::fflush(stdout) != 0 || std::ferror(stdout) != 0) && tool.outcome.ok()) {
    tool.outcome = ErrnoStatus("standard output cannot be written", errno);
  }
  if (!tool.outcome.ok()) {
    std::fprintf(stderr, "millrace: %s\n", tool.outcome.message().c_str());
  }
  return cli::ExitCode(tool.outcome);
}
