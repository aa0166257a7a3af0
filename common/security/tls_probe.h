// Finds out why two ends of a connection do not connect. gRPC says only "Socket closed" to the end
// whose certificate the other one refuses.
//
// Free functions; thread-safe.
#pragma once

#include <string>

#include "common/access/role.h"
#include "common/base/result.h"
#include "common/security/tls_files.h"

namespace millrace {

/// The parameters of a client's connection.
struct TlsProbe {
  std::string address;                      // host:port
  const TlsFiles* files = nullptr;          // null: no TLS
  std::string folder;                       // of the files, for messages
  PeerRole server = PeerRole::kDispatcher;  // the role that the server has to prove
  double timeout_seconds = 2;
};

/// Connects once more and observes the result. Unauthenticated, with the end that has to change and
/// the change, if TLS is the reason that a connection fails. Ok if it is not, or if nothing answers
/// there. Blocks for at most the time limit.
Status ExplainTls(const TlsProbe& probe);

}  // namespace millrace
