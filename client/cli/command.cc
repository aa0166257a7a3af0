#include "client/cli/command.h"

#include "client/session_options.h"

namespace millrace::cli {

int ExitCode(const Status& status) {
  switch (status.code()) {
    case StatusCode::kOk:
      return 0;
    case StatusCode::kDataLoss:
      return 3;
    case StatusCode::kInvalidArgument:
    case StatusCode::kOutOfRange:
    case StatusCode::kNotFound:
    case StatusCode::kAlreadyExists:
    case StatusCode::kPermissionDenied:
    case StatusCode::kFailedPrecondition:
      return 2;
    default:
      return 1;
  }
}

CLI::App* Tool::Add(const std::string& name, const std::string& help, const std::string& examples,
                    std::function<Status()> run) {
  CLI::App* command = app.add_subcommand(name, help);
  if (!examples.empty()) command->footer("Examples:\n" + examples);
  command->callback([this, run = std::move(run)] { outcome = run(); });
  return command;
}

void AddAddress(CLI::App* command, std::string& address) {
  const SessionOption& option = *FindSessionOption("address");
  command->add_option("--address", address, std::string(option.help))
      ->type_name(std::string(option.type_name))
      ->capture_default_str()
      ->check([&option](const std::string& given) {
        return option.check(option.name, given).message();
      });
}

}  // namespace millrace::cli
