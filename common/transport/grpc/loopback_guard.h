// Turns away other users of a host who connect over loopback to a server without TLS, and gives
// them the reason.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include <grpcpp/grpcpp.h>

#include "common/security/local_users.h"

namespace millrace {

/// Passes a connection to a server of gRPC, which owns it from then on.
void HandOver(grpc::experimental::ExternalConnectionAcceptor& acceptor, int connection,
              int listening);

/// Not thread-safe: for the thread that accepts.
class LoopbackGuard {
 public:
  explicit LoopbackGuard(const LocalUsers& users);
  ~LoopbackGuard();

  /// Whether the connection is from a user who is not served. If so, the loopback guard has it,
  /// answers its calls with PermissionDenied for a moment, and then closes it. Connections that
  /// come too fast are closed at once.
  bool TurnsAway(int connection, int listening);

 private:
  class Answers;

  const LocalUsers users_;
  std::unique_ptr<Answers> answers_;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor_;
  std::unique_ptr<grpc::Server> server_;
  std::chrono::steady_clock::time_point second_;  // when the present one began
  int in_second_ = 0;                             // connections answered in it
};

}  // namespace millrace
