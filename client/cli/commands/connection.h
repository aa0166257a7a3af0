// How commands reach a dispatcher.
#pragma once

#include <memory>
#include <string>

#include "common/base/result.h"
#include "common/command_line/command_line.h"
#include "common/transport/stream.h"

namespace millrace::cli {

struct Connection {
  std::string address = "127.0.0.1:7700";  // several have commas between
  std::string tls;                         // folder; empty: that of MILLRACE_TLS, or no TLS
};

/// Adds --address, which takes one dispatcher or several, and --tls.
void AddConnection(CommandLine& command, Connection& connection);

/// Errors are those of TlsFolder::Open.
Result<std::shared_ptr<Connector>> Connect(const Connection& connection);

/// Whether it is of use to try again after this error: a dispatcher that is away may come back, but
/// rights do not.
bool MayHelpToRetry(const Status& error);

}  // namespace millrace::cli
