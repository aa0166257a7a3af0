#include "client/cli/command.h"

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
    case StatusCode::kUnauthenticated:
    case StatusCode::kFailedPrecondition:
      return 2;
    default:
      return 1;
  }
}

CommandLine& Tool::Add(const std::string& name, const std::string& help,
                       const std::string& examples, std::function<Status()> run) {
  CommandLine& command =
      program.AddCommand(name, help, [this, run = std::move(run)] { outcome = run(); });
  if (!examples.empty()) command.SetFooter("Examples:\n" + examples);
  return command;
}

}  // namespace millrace::cli
