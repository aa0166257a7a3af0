// The network over gRPC, as a client of dispatchers and workers sees it.
#pragma once

#include <memory>
#include <string>

#include "common/transport/stream.h"

namespace millrace {

struct GrpcClientOptions {
  /// Seconds between keepalive pings on an idle connection, and to wait for the answer. The
  /// servers' limits (grpc_server) allow this rate.
  double keepalive_seconds = 10;
  double keepalive_timeout_seconds = 5;
  /// A watched status that does not come for three periods and so many seconds is given up.
  double silence_seconds = 5;
};

/// Every connector has connections of its own, one an address. Thread-safe. Where a tool asks one
/// of several dispatchers (status, trace, an operator's requests), the address may be all of
/// theirs, with commas between them: the one that leads answers.
std::shared_ptr<Connector> MakeGrpcConnector(const GrpcClientOptions& options);

}  // namespace millrace
