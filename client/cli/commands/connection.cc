#include "client/cli/commands/connection.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "client/session_option_table.h"
#include "common/command_line/parameter_flag.h"
#include "common/system/clock.h"
#include "common/system/stop_wait.h"
#include "common/transport/grpc/grpc_client.h"

namespace millrace::cli {
namespace {

/// The longest pause between two looks at a dispatcher that is away, whatever the period is.
constexpr double kLongestPauseSeconds = 1;

}  // namespace

void AddConnection(CommandLine& command, Connection& connection) {
  for (const auto& [name, target] :
       {std::pair("address", &connection.address), std::pair("tls", &connection.tls)}) {
    const SessionOption& option = FindSessionOption(name);
    AddParameterFlag(
        command, option.flag, option.parameter,
        [target = target](const ParamValue& value) { *target = std::get<std::string>(value); })
        .TypeName(option.type_name)
        .Default(*target);
  }
}

Result<std::shared_ptr<Connector>> Connect(const Connection& connection) {
  MILLRACE_ASSIGN_OR_RETURN(
      auto tls, OpenClientTls(connection.tls, std::make_shared<SystemClock>(), MakeNullLogger()));
  return MakeGrpcConnector({.tls = std::move(tls)});
}

Status WatchOn(Connector& connector, const std::string& address, double period_seconds,
               const std::function<void(const v1::ServiceStatus&)>& on_status,
               const std::function<bool(const Status&)>& on_error, const std::stop_token& stop) {
  const std::chrono::duration<double> pause(std::min(period_seconds, kLongestPauseSeconds));
  bool first = true;
  const auto note = [&](const v1::ServiceStatus& status) {
    first = false;
    on_status(status);
  };
  while (!stop.stop_requested()) {
    const Status end = connector.WatchStatus(address, period_seconds, note, stop);
    if (end.ok()) continue;
    // A look opens one connection, so only the next look finds why a handshake failed. A caller
    // that ends at the first error would not get to know it.
    if (std::exchange(first, false) && end.code() == StatusCode::kUnavailable) continue;
    if (!on_error(end)) return end;
    WaitUnlessStopped(stop, pause);
  }
  return OkStatus();
}

bool MayHelpToRetry(const Status& error) {
  return error.code() != StatusCode::kPermissionDenied &&
         error.code() != StatusCode::kUnauthenticated;
}

}  // namespace millrace::cli
