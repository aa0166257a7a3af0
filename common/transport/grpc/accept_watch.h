// Tells a daemon that it can take no more connections. gRPC stops to listen, for good and with no
// word to its user, when accept() fails for want of open files: the port stays bound, and whoever
// connects waits for an answer that never comes.
#pragma once

#include <functional>
#include <string>

namespace millrace {

/// From now on gRPC's own log lines go to `line`, and `failed` is called, with the reason, each
/// time that a server of this process has stopped to listen. Both from any thread, also after main
/// has ended. For the whole process; to be called once, before servers are started.
void WatchAccepts(std::function<void(const std::string& text)> line,
                  std::function<void(const std::string& why)> failed);

}  // namespace millrace
