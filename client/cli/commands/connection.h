// How commands reach a dispatcher.
#pragma once

#include <functional>
#include <memory>
#include <stop_token>
#include <string>

#include "common/base/result.h"
#include "common/command_line/command_line.h"
#include "common/transport/stream.h"

namespace millrace::cli {

struct Connection {
  std::string address = "127.0.0.1:7700";  // several are separated by commas
  std::string tls;                         // folder; empty: the one in MILLRACE_TLS, or no TLS
};

/// Adds --address, which takes one dispatcher or several, and --tls.
void AddConnection(CommandLine& command, Connection& connection);

/// Errors as for TlsFolder::Open.
Result<std::shared_ptr<Connector>> Connect(const Connection& connection);

/// Receives the status of the service repeatedly, once per period. `on_status` is called on this
/// thread. A dispatcher that is away may come back, so `on_error` gets the error, and watching goes
/// on as long as it returns true. Blocks until `stop` is requested (Ok) or `on_error` returns false
/// (the error).
Status WatchOn(Connector& connector, const std::string& address, double period_seconds,
               const std::function<void(const v1::ServiceStatus&)>& on_status,
               const std::function<bool(const Status&)>& on_error, const std::stop_token& stop);

/// Whether another try may succeed after this error: rights do not come back.
bool MayHelpToRetry(const Status& error);

}  // namespace millrace::cli
