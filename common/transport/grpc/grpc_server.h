// Serves the endpoint of a dispatcher or a worker over gRPC, each on a port of its own, together
// with grpc.health.v1.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "common/access/access_policy.h"
#include "common/base/result.h"
#include "common/security/local_users.h"
#include "common/security/tls_folder.h"
#include "common/transport/grpc/listener.h"
#include "common/transport/grpc/refused_call.h"
#include "common/transport/stream.h"

namespace millrace {

/// The peers that a server admits, and its reports about refused ones.
struct ServerSecurity {
  /// The server's certificate. Null: no TLS.
  std::shared_ptr<TlsFolder> tls;
  /// With TLS: the identity of peers. Null: by their certificates alone (CertificatePolicy).
  std::shared_ptr<AccessPolicy> policy;
  /// Without TLS: the users of this host who may connect over loopback. Unset: everybody who can
  /// connect at all.
  std::optional<LocalUsers> users;
  /// Both may be null, and are called on any thread.
  OnRefusedCall on_refused_call;
  OnRefusedConnection on_refused_connection;
};

struct GrpcServerOptions {
  std::string listen = "127.0.0.1:0";  // host:port; port 0: any free port
  ServerSecurity security = {};
};

/// A listening server. Thread-safe.
class GrpcServer {
 public:
  /// AlreadyExists if the port is taken (two daemons never share one). PermissionDenied if the
  /// process may not use the port. InvalidArgument for an address that this machine lacks.
  static Result<std::unique_ptr<GrpcServer>> Start(const GrpcServerOptions& options,
                                                   std::shared_ptr<DispatcherEndpoint> endpoint);
  static Result<std::unique_ptr<GrpcServer>> Start(const GrpcServerOptions& options,
                                                   std::shared_ptr<WorkerEndpoint> endpoint);
  virtual ~GrpcServer() = default;

  virtual int port() const = 0;
  /// From now on the health service answers NOT_SERVING.
  virtual void SetDraining() = 0;
  /// Refuses new calls, lets open calls end within `grace`, and then cancels them. Blocks.
  virtual void Shutdown(std::chrono::nanoseconds grace) = 0;
};

}  // namespace millrace
