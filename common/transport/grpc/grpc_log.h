// Takes over gRPC's own log lines.
#pragma once

#include <functional>
#include <string>

namespace millrace {

/// From now on, gRPC's lines go to `line`, and the reasons of failed TLS handshakes of servers to
/// `handshake`: gRPC reports them nowhere else. Both may be called from any thread, and even after
/// main has ended. Applies to the whole process. Call it once, before servers are started.
void WatchGrpcLog(std::function<void(const std::string& text)> line,
                  std::function<void(const std::string& why)> handshake);

}  // namespace millrace
