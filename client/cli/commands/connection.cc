#include "client/cli/commands/connection.h"

#include "client/session_options.h"
#include "common/system/clock.h"
#include "common/transport/grpc/grpc_client.h"

namespace millrace::cli {

void AddConnection(CommandLine& command, Connection& connection) {
  const SessionOption& address = *FindSessionOption("address");
  command.AddOption("--address", &connection.address, std::string(address.help))
      .TypeName(std::string(address.type_name))
      .ShowDefault()
      .Check([&address](const std::string& given) {
        return address.check(address.name, given).message();
      });
  const SessionOption& tls = *FindSessionOption("tls");
  command.AddOption("--tls", &connection.tls, std::string(tls.help))
      .TypeName(std::string(tls.type_name));
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
