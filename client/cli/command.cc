#include "client/cli/command.h"

#include "common/base/addresses.h"

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
  command
      ->add_option(
          "--address", address,
          "the control port of the dispatcher; several dispatchers have commas between them")
      ->type_name("HOST:PORT")
      ->capture_default_str()
      ->check([](const std::string& given) { return CheckAddresses("address", given).message(); });
}

}  // namespace millrace::cli
