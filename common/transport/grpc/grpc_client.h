// The network over gRPC, for clients of dispatchers and workers.
#pragma once

#include <memory>
#include <string>

#include "common/security/tls_folder.h"
#include "common/transport/stream.h"

namespace millrace {

struct GrpcClientOptions {
  /// The proof of this client's identity, and of its servers'. Null: no TLS.
  std::shared_ptr<TlsFolder> tls;
  /// Seconds between keepalive pings on an idle connection, and seconds to wait for the answer. The
  /// servers' limits (grpc_server) allow this rate.
  double keepalive_seconds = 10;
  double keepalive_timeout_seconds = 5;
  /// Seconds that connecting may take. 0: 2 s, or 10 s with TLS, because a server does one
  /// handshake after another, and if all of a large fleet come at once, most of them wait for
  /// seconds.
  double connect_seconds = 0;
  /// A watch on a status ends with an error if nothing comes for three periods plus this many
  /// seconds.
  double silence_seconds = 5;
};

/// Every connector has its own connections, one per address. Thread-safe. Tools may ask one of
/// several dispatchers (for status, traces and an operator's requests). Then the address may be a
/// list of all of them, separated by commas, and the one that leads answers.
std::shared_ptr<Connector> MakeGrpcConnector(const GrpcClientOptions& options);

}  // namespace millrace
