// The names of peers, as gRPC writes them in a ServerContext: "ipv4:127.0.0.1:4711",
// "ipv6:%5B::1%5D:4711".
#pragma once

#include <string>

namespace millrace {

/// The other end of a TCP connection. Empty if it is gone, or the file is no connection.
std::string PeerName(int connection);

}  // namespace millrace
