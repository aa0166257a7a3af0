#include "client/cli/commands/connection.h"

#include "client/session_options.h"
#include "common/system/clock.h"
#include "common/transport/grpc/grpc_client.h"

namespace millrace::cli {

void AddConnection(CLI::App* command, Connection& connection) {
  const SessionOption& address = *FindSessionOption("address");
  command->add_option("--address", connection.address, std::string(address.help))
      ->type_name(std::string(address.type_name))
      ->capture_default_str()
      ->check([&address](const std::string& given) {
        return address.check(address.name, given).message();
      });
  const SessionOption& tls = *FindSessionOption("tls");
  command->add_option("--tls", connection.tls, std::string(tls.help))
      ->type_name(std::string(tls.type_name));
}

Result<std::shared_ptr<Connector>> Connect(const Connection& connection) {
  MILLRACE_ASSIGN_OR_RETURN(
      auto tls, OpenClientTls(connection.tls, std::make_shared<SystemClock>(), MakeNullLogger()));
  return MakeGrpcConnector({.tls = std::move(tls)});
}

bool MayHelpToRetry(const Status& error) {
  return error.code() != StatusCode::kPermissionDenied &&
         error.code() != StatusCode::kUnauthenticated;
}

}  // namespace millrace::cli
