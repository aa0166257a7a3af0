#include "common/transport/grpc/peer_name.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>

namespace millrace {

std::string PeerName(int connection) {
  sockaddr_storage at{};
  socklen_t size = sizeof at;
  if (getpeername(connection, reinterpret_cast<sockaddr*>(&at), &size) != 0) return {};
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (at.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(at);
    inet_ntop(AF_INET, &v4.sin_addr, text.data(), text.size());
    return std::string("ipv4:") + text.data() + ":" + std::to_string(ntohs(v4.sin_port));
  }
  if (at.ss_family != AF_INET6) return {};
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(at);
  const std::string port = std::to_string(ntohs(v6.sin6_port));
  if (IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr)) {
    inet_ntop(AF_INET, &v6.sin6_addr.s6_addr[12], text.data(), text.size());
    return std::string("ipv4:") + text.data() + ":" + port;
  }
  inet_ntop(AF_INET6, &v6.sin6_addr, text.data(), text.size());
  const std::string scope =
      v6.sin6_scope_id == 0 ? std::string() : "%25" + std::to_string(v6.sin6_scope_id);
  return std::string("ipv6:%5B") + text.data() + scope + "%5D:" + port;
}

}  // namespace millrace
