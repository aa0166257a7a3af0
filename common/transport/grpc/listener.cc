#include "common/transport/grpc/listener.h"

#include <fcntl.h>
#include <linux/tcp.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <span>
#include <utility>

#include "common/base/addresses.h"
#include "common/transport/grpc/listen_check.h"
#include "common/transport/grpc/peer_name.h"

namespace millrace {
namespace {

constexpr int kBacklog = 1024;
/// Unacknowledged bytes end a connection after this time, as gRPC's own sockets do with the
/// server's keepalive.
constexpr unsigned kUserTimeoutMs = 5'000;
/// How many files stay free for all else that a daemon opens: an eighth of the limit within these
/// bounds.
constexpr rlim_t kLeastReserve = 4;
constexpr rlim_t kMostReserve = 256;

std::uint64_t MostFiles() {
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur == RLIM_INFINITY) return ~0ull;
  return files.rlim_cur -
         std::min(files.rlim_cur, std::clamp(files.rlim_cur / 8, kLeastReserve, kMostReserve));
}

/// A listening socket, or -1 with errno set.
int OpenSocket(const addrinfo& address, int port) {
  sockaddr_storage at{};
  std::memcpy(&at, address.ai_addr, address.ai_addrlen);
  if (address.ai_family == AF_INET) {
    reinterpret_cast<sockaddr_in*>(&at)->sin_port = htons(static_cast<std::uint16_t>(port));
  } else if (address.ai_family == AF_INET6) {
    reinterpret_cast<sockaddr_in6*>(&at)->sin6_port = htons(static_cast<std::uint16_t>(port));
  }
  const int fd = socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return -1;
  const int on = 1;
  const bool set =
      setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
      setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0 &&
      setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &kUserTimeoutMs, sizeof kUserTimeoutMs) == 0;
  if (set && bind(fd, reinterpret_cast<sockaddr*>(&at), address.ai_addrlen) == 0 &&
      ::listen(fd, kBacklog) == 0) {
    return fd;
  }
  const int error = errno;
  close(fd);
  errno = error;
  return -1;
}

int PortOf(int fd) {
  sockaddr_storage at{};
  socklen_t size = sizeof at;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&at), &size) != 0) return 0;
  return ntohs(at.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&at)->sin6_port
                                        : reinterpret_cast<sockaddr_in*>(&at)->sin_port);
}

bool NoFilesLeft(int error) {
  return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

/// How many connections may wait until they have said enough: a quarter of the files, within these
/// bounds. When a thousand trainers come at once, their hosts may take a while to say more.
constexpr std::uint64_t kLeastRoom = 64;
constexpr std::uint64_t kMostRoom = 4096;
constexpr std::size_t kTlsHeader = 5;
constexpr std::size_t kMostTlsRecord = 16'384;
constexpr std::size_t kMostOpening = kTlsHeader + kMostTlsRecord;
constexpr std::string_view kHttp2Preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// How many bytes have to be there before the connection is handed over, given those that are
/// there. Nothing if they are none of a client.
std::optional<std::size_t> BytesNeeded(Opening opening, std::span<const unsigned char> said) {
  if (opening == Opening::kHttp2) {
    const std::string_view text(reinterpret_cast<const char*>(said.data()), said.size());
    const std::size_t same = std::min(text.size(), kHttp2Preface.size());
    if (text.substr(0, same) != kHttp2Preface.substr(0, same)) return std::nullopt;
    return kHttp2Preface.size();
  }
  if (opening == Opening::kAnything) return 1;
  constexpr unsigned char kHandshake = 22;  // ContentType
  if (!said.empty() && said[0] != kHandshake) return std::nullopt;
  if (said.size() < kTlsHeader) return kTlsHeader;
  const std::size_t length = std::size_t{said[3]} << 8 | said[4];
  if (length == 0 || length > kMostTlsRecord) return std::nullopt;
  return kTlsHeader + length;
}

int OpenSpare() { return open("/dev/null", O_RDONLY | O_CLOEXEC); }

}  // namespace

std::string_view RefusedConnectionName(RefusedConnection why) {
  switch (why) {
    case RefusedConnection::kTooMany:
      return "too_many";
    case RefusedConnection::kSilent:
      return "silent";
    case RefusedConnection::kProtocol:
      return "protocol";
    case RefusedConnection::kUser:
      return "user";
    case RefusedConnection::kUnfinished:
      break;
  }
  return "unfinished";
}

Listener::Listener(ListenerOptions options)
    : options_(std::move(options)),
      most_files_(MostFiles()),
      most_silent_(options_.most_silent.value_or(
          std::clamp<std::uint64_t>(most_files_ / 4, kLeastRoom, kMostRoom))) {}

Result<std::unique_ptr<Listener>> Listener::Start(ListenerOptions options) {
  MILLRACE_RETURN_IF_ERROR(CheckListen(options.listen));
  std::unique_ptr<Listener> listener(new Listener(std::move(options)));
  MILLRACE_RETURN_IF_ERROR(listener->Open());
  listener->thread_ = std::thread([l = listener.get()] { l->Run(); });
  return listener;
}

Listener::~Listener() {
  if (thread_.joinable()) {
    const std::uint64_t one = 1;
    (void)!write(wake_, &one, sizeof one);
    thread_.join();
  }
  for (const Silent& silent : silent_) close(silent.connection);
  for (const int fd : sockets_) close(fd);
  if (wake_ >= 0) close(wake_);
  if (spare_ >= 0) close(spare_);
}

Status Listener::Open() {
  const HostPort parsed = *ParseHostPort(options_.listen);  // CheckListen has read it
  port_ = parsed.port;
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* list = nullptr;
  const std::string port = std::to_string(parsed.port);
  if (const int error = getaddrinfo(parsed.host.c_str(), port.c_str(), &hints, &list); error != 0) {
    return InvalidArgument("listen address '" + options_.listen + "': " + gai_strerror(error));
  }
  // A name may have several addresses. All that this machine has get the same port.
  int error = 0;
  for (const addrinfo* at = list; at != nullptr; at = at->ai_next) {
    const int fd = OpenSocket(*at, port_);
    if (fd < 0) {
      error = errno;
      continue;
    }
    sockets_.push_back(fd);
    if (port_ == 0) port_ = PortOf(fd);
  }
  freeaddrinfo(list);
  if (sockets_.empty()) {
    const std::string what = "cannot listen on " + options_.listen + ": ";
    return error == EADDRINUSE ? AlreadyExists(what +
                                               "the port is in use by another process; "
                                               "stop it or choose another port")
                               : InvalidArgument(what + std::strerror(error));
  }
  wake_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  spare_ = OpenSpare();
  return OkStatus();
}

void Listener::Run() {
  std::vector<pollfd> wait;
  for (;;) {
    const std::chrono::milliseconds left = EndSilent();
    wait.clear();
    wait.push_back({wake_, POLLIN, 0});
    for (const int fd : sockets_) wait.push_back({fd, POLLIN, 0});
    for (const Silent& silent : silent_) wait.push_back({silent.connection, POLLIN | POLLRDHUP, 0});
    if (poll(wait.data(), wait.size(), static_cast<int>(left.count())) <= 0) continue;
    if (wait.front().revents != 0) return;
    // Those that speak go first: then they are not among those that new ones push out.
    std::size_t at = 1 + sockets_.size();
    std::erase_if(silent_, [&](const Silent& silent) {
      const short events = wait[at++].revents;
      const bool ended = (events & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
      return events != 0 && Look(silent.connection, silent.listening, ended);
    });
    for (std::size_t i = 1; i <= sockets_.size(); ++i) {
      if (wait[i].revents != 0) Accept(wait[i].fd);
    }
  }
}

std::chrono::milliseconds Listener::EndSilent() {
  const auto now = std::chrono::steady_clock::now();
  while (!silent_.empty() && silent_.front().end <= now) {
    Refuse(silent_.front().connection, RefusedConnection::kSilent);
    silent_.pop_front();
  }
  if (silent_.empty()) return std::chrono::milliseconds(-1);
  return std::chrono::ceil<std::chrono::milliseconds>(silent_.front().end - now);
}

void Listener::Refuse(int connection, RefusedConnection why) {
  const std::string peer = PeerName(connection);
  close(connection);
  if (options_.on_refused) options_.on_refused(why, peer);
}

void Listener::Accept(int listening) {
  int fd = accept4(listening, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  const bool none_left = fd < 0 && NoFilesLeft(errno);
  if (none_left) {
    // The spare file makes place for the connection, so that its peer hears that it is closed.
    // Other threads may be faster: then it waits, and so does this loop.
    if (spare_ >= 0) close(std::exchange(spare_, -1));
    fd = accept4(listening, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  if (fd >= 0 && (none_left || static_cast<std::uint64_t>(fd) >= most_files_)) {
    Refuse(std::exchange(fd, -1), RefusedConnection::kTooMany);
  }
  if (spare_ < 0) spare_ = OpenSpare();
  if (fd >= 0 && !Look(fd, listening, false)) Wait(fd, listening);
}

void Listener::Wait(int connection, int listening) {
  if (silent_.size() >= most_silent_) {
    Refuse(silent_.front().connection, RefusedConnection::kSilent);
    silent_.pop_front();
  }
  silent_.push_back({connection, listening, std::chrono::steady_clock::now() + options_.silence});
}

bool Listener::Look(int connection, int listening, bool ended) {
  std::array<unsigned char, kMostOpening> bytes;
  const ssize_t size = recv(connection, bytes.data(), bytes.size(), MSG_PEEK | MSG_DONTWAIT);
  if (size == 0 || (size < 0 && errno != EAGAIN && errno != EINTR)) {
    close(connection);  // the peer has given up
    return true;
  }
  const std::span said(bytes.data(), static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
  const std::optional<std::size_t> needed = BytesNeeded(options_.opening, said);
  if (!needed) {
    Refuse(connection, RefusedConnection::kProtocol);
    return true;
  }
  const bool enough = *needed <= said.size();
  // The kernel reports the connection as readable only when it has so many bytes: after the first
  // ones, which may be wrong already.
  const int least = enough || said.empty() ? 1 : static_cast<int>(*needed);
  setsockopt(connection, SOL_SOCKET, SO_RCVLOWAT, &least, sizeof least);
  if (!enough) {
    if (ended) close(connection);
    return ended;
  }
  options_.on_connection(connection, listening);
  return true;
}

}  // namespace millrace
