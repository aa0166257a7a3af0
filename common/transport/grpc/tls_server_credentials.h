// TLS for a gRPC server: its certificate is read again when its files change, and peers show their
// certificates.
#pragma once

#include <memory>

#include <grpcpp/grpcpp.h>

#include "common/security/tls_folder.h"
#include "common/transport/grpc/call_gate.h"

namespace millrace {

/// Each handshake takes the files that are in force then. A peer without a certificate that the
/// folder's ca.crt signed gets no further than the handshake, unless `tokens`: then it may show a
/// token with each call. Calls are refused by `gate` before any of their messages is read.
std::shared_ptr<grpc::ServerCredentials> MakeTlsServerCredentials(std::shared_ptr<TlsFolder> folder,
                                                                  bool tokens,
                                                                  std::shared_ptr<CallGate> gate);

}  // namespace millrace
