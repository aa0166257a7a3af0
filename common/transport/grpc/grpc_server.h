// Dispatcher and worker endpoints served over gRPC, each on a port of its own, with
// grpc.health.v1 beside them.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "common/base/result.h"
#include "common/transport/stream.h"

namespace millrace {

struct GrpcServerOptions {
  std::string listen = "127.0.0.1:0";  // host:port; port 0: any free one
  int max_concurrent_streams = 10'000;
};

/// A listening server. Thread-safe.
class GrpcServer {
 public:
  /// AlreadyExists where the port is taken (a second daemon never shares it), PermissionDenied,
  /// InvalidArgument for an address that is none of this machine's.
  static Result<std::unique_ptr<GrpcServer>> Start(const GrpcServerOptions& options,
                                                   std::shared_ptr<DispatcherEndpoint> endpoint);
  static Result<std::unique_ptr<GrpcServer>> Start(const GrpcServerOptions& options,
                                                   std::shared_ptr<WorkerEndpoint> endpoint);
  virtual ~GrpcServer() = default;

  virtual int port() const = 0;
  /// Health answers NOT_SERVING from now on.
  virtual void SetDraining() = 0;
  /// Refuses new calls, lets open ones end within `grace`, then cancels them. Blocks.
  virtual void Shutdown(std::chrono::nanoseconds grace) = 0;
};

}  // namespace millrace
