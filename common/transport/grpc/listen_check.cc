#include "common/transport/grpc/listen_check.h"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>

#include "common/base/addresses.h"

namespace millrace {
namespace {

/// Binds the address for a moment. Returns 0 or the errno.
int TryBind(const addrinfo& address) {
  const int fd = socket(address.ai_family, address.ai_socktype | SOCK_CLOEXEC, 0);
  if (fd < 0) return errno;
  int error = 0;
  const int on = 1;
  if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
      bind(fd, address.ai_addr, address.ai_addrlen) != 0 || ::listen(fd, 1) != 0) {
    error = errno;
  }
  close(fd);
  return error;
}

/// Whether an error means that the machine does not have such an address.
bool IsOfHost(int error) { return error == EADDRNOTAVAIL || error == EAFNOSUPPORT; }

}  // namespace

Status CheckListen(const std::string& listen) {
  const std::optional<HostPort> parsed = ParseHostPort(listen);
  if (!parsed) {
    return InvalidArgument("listen address '" + listen +
                           "': expected host:port, the port from 0 to 65535, an IPv6 address in "
                           "brackets");
  }
  const std::string& host = parsed->host;
  const std::string port = std::to_string(parsed->port);
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* list = nullptr;
  if (const int error = getaddrinfo(host.c_str(), port.c_str(), &hints, &list); error != 0) {
    return InvalidArgument("listen address '" + listen + "': " + gai_strerror(error));
  }
  // A name may have several addresses, as localhost has. A server listens on all that exist.
  int error = 0;
  bool bound = false;
  for (const addrinfo* address = list; address != nullptr; address = address->ai_next) {
    const int problem = TryBind(*address);
    bound = bound || problem == 0;
    if (problem != 0 && (error == 0 || IsOfHost(error))) error = problem;
  }
  freeaddrinfo(list);
  // An address that this machine lacks, such as ::1 without IPv6, matters only if no other one
  // works.
  if (bound && IsOfHost(error)) error = 0;
  switch (error) {
    case 0:
      return OkStatus();
    case EADDRINUSE:
      return AlreadyExists(
          "cannot listen on " + listen +
          ": the port is in use by another process; stop it or choose another port");
    case EACCES:
      return PermissionDenied("cannot listen on " + listen +
                              ": no permission; choose a port above 1023");
    default:
      return InvalidArgument("cannot listen on " + listen + ": " + std::strerror(error));
  }
}

}  // namespace millrace
