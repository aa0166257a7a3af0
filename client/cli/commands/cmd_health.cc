// `millrace health`: whether a daemon lives and is ready, for health checks of containers.

#include <cstdio>
#include <memory>
#include <string>

#include "client/cli/commands.h"
#include "client/cli/numbers.h"
#include "common/base/addresses.h"
#include "common/transport/grpc/health_client.h"

namespace millrace::cli {
namespace {

struct HealthArguments {
  std::string address = "127.0.0.1:7703";
  std::string service = "readiness";
  double timeout_seconds = 5;
};

Status Health(const HealthArguments& options) {
  MILLRACE_RETURN_IF_ERROR(CheckAddresses("--address", options.address));
  MILLRACE_RETURN_IF_ERROR(CheckHealth(options.address, options.service, options.timeout_seconds));
  std::printf("%s at %s: serving\n", options.service.c_str(), options.address.c_str());
  return OkStatus();
}

}  // namespace

void AddHealthCommand(Tool& tool) {
  const auto options = std::make_shared<HealthArguments>();
  CommandLine& command =
      tool.Add("health", "Ask a daemon's --health-listen whether it is ready; exit code 0 if so",
               "  millrace health\n"
               "  millrace health --address 127.0.0.1:7703 --service liveness\n",
               [options] { return Health(*options); });
  command.AddOption("--address", &options->address, "what the daemon has as --health-listen")
      .TypeName("HOST:PORT")
      .ShowDefault();
  command.AddOption("--service", &options->service, "readiness or liveness")
      .OneOf({"readiness", "liveness"})
      .ShowDefault();
  command.AddOption("--timeout", &options->timeout_seconds, "seconds to wait for an answer")
      .Check(Seconds())
      .TypeName("SECONDS")
      .ShowDefault();
}

}  // namespace millrace::cli
