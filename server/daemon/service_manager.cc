#include "server/daemon/service_manager.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

#include "common/system/errno_status.h"

namespace millrace {
namespace {

// Added to the grace time: the daemon ends by itself (ShutdownLimit) well before.
constexpr double kMoreSeconds = 10;

}  // namespace

Status TellServiceManager(std::string_view lines) {
  const char* const name = std::getenv("NOTIFY_SOCKET");
  if (name == nullptr || *name == '\0') return OkStatus();
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::size_t length = std::strlen(name);
  if ((name[0] != '/' && name[0] != '@') || length >= sizeof address.sun_path) {
    return InvalidArgument("NOTIFY_SOCKET: expected /path or @name of at most " +
                           std::to_string(sizeof address.sun_path - 1) + " bytes, got '" + name +
                           "'");
  }
  std::memcpy(address.sun_path, name, length);
  if (name[0] == '@') address.sun_path[0] = '\0';  // a name in the abstract namespace
  const int sender = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (sender < 0) return ErrnoStatus("cannot make a socket for NOTIFY_SOCKET", errno);
  const ssize_t sent =
      sendto(sender, lines.data(), lines.size(), MSG_NOSIGNAL,
             reinterpret_cast<const sockaddr*>(&address),
             static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + length));
  const int error = errno;
  close(sender);
  if (sent < 0) return ErrnoStatus(std::string("cannot send to NOTIFY_SOCKET ") + name, error);
  return OkStatus();
}

std::string StoppingNotice(double grace_seconds) {
  const auto microseconds = static_cast<std::uint64_t>((grace_seconds + kMoreSeconds) * 1e6);
  return "STOPPING=1\nEXTEND_TIMEOUT_USEC=" + std::to_string(microseconds);
}

}  // namespace millrace
