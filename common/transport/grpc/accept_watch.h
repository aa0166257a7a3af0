// Tells a daemon when it can accept no more connections. If accept() fails because too many files
// are open, gRPC stops to listen for good and does not tell its user. The port stays bound, and a
// client that connects waits for an answer that never comes.
#pragma once

#include <functional>
#include <string>

namespace millrace {

/// From now on, gRPC's own log lines go to `line`. `failed` is called with the reason each time
/// that a server of this process has stopped to listen. Both may be called from any thread, and
/// even after main has ended. Applies to the whole process. Call it once, before servers are
/// started.
void WatchAccepts(std::function<void(const std::string& text)> line,
                  std::function<void(const std::string& why)> failed);

}  // namespace millrace
