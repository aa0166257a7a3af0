// grpc.health.v1 on a port of its own, without encryption, because probes have no certificate.
//
// Services: "" and "liveness" say whether the process is alive. "readiness" says whether it can
// accept work.
#pragma once

#include <memory>
#include <string>

#include "common/base/result.h"

namespace millrace {

/// A listening server. Thread-safe.
class HealthServer {
 public:
  /// Starts as alive but not ready. Errors as for GrpcServer::Start.
  static Result<std::unique_ptr<HealthServer>> Start(const std::string& listen);
  virtual ~HealthServer() = default;

  virtual int port() const = 0;
  virtual void SetAlive(bool alive) = 0;
  virtual void SetReady(bool ready) = 0;
};

}  // namespace millrace
