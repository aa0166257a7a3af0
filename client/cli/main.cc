// `millrace`: the command-line tool. Each command is a file cmd_NAME.cc and one line below.

#include <cstdio>

#include "client/cli/command.h"
#include "client/cli/commands.h"

int main(int argc, char** argv) {
  using namespace millrace;
  cli::Tool tool;
  tool.app.name("millrace");
  tool.app.description("Millrace prepares training batches outside the trainer.");
  tool.app.require_subcommand(1);
  cli::AddAllCommands(tool);
  try {
    tool.app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    const int code = tool.app.exit(e);
    return code == 0 ? 0 : 2;
  }
  if (!tool.outcome.ok()) {
    std::fprintf(stderr, "millrace: %s\n", tool.outcome.message().c_str());
  }
  return cli::ExitCode(tool.outcome);
}
