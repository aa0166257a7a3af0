#include "server/web/tls_front.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <openssl/err.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <utility>

#include "common/security/x509.h"
#include "common/system/file_descriptor.h"

namespace millrace {
namespace {

using SteadyTime = std::chrono::steady_clock::time_point;
using SslPtr = std::unique_ptr<SSL, FreeWith<SSL_free>>;

constexpr int kThreads = 8;
/// Connections that are served or wait for a thread. One more is closed at once.
constexpr int kMostOpen = 64;
constexpr auto kHandshakeWithin = std::chrono::seconds(2);
constexpr auto kFrontAnswerWithin = std::chrono::seconds(30);
/// How often a thread looks whether it has to end.
constexpr int kLookMs = 200;

std::string AddressOf(int connection) {
  sockaddr_storage peer{};
  socklen_t size = sizeof peer;
  char text[NI_MAXHOST] = {};
  const auto* const address = reinterpret_cast<const sockaddr*>(&peer);
  if (getpeername(connection, reinterpret_cast<sockaddr*>(&peer), &size) != 0 ||
      getnameinfo(address, size, text, sizeof text, nullptr, 0, NI_NUMERICHOST) != 0) {
    return "";
  }
  return text;
}

sockaddr_in Loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

/// Gives a socket a port of its own on 127.0.0.1 before it connects. Returns it, or 0.
int BindLoopback(int fd) {
  sockaddr_in own = Loopback(0);
  socklen_t size = sizeof own;
  if (bind(fd, reinterpret_cast<sockaddr*>(&own), size) != 0 ||
      getsockname(fd, reinterpret_cast<sockaddr*>(&own), &size) != 0) {
    return 0;
  }
  return ntohs(own.sin_port);
}

bool SendAll(int fd, const char* bytes, std::size_t size) {
  while (size > 0) {
    const ssize_t sent = send(fd, bytes, size, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    bytes += sent;
    size -= static_cast<std::size_t>(sent);
  }
  return true;
}

/// Calls a function of OpenSSL until it has done its work. False if that fails, or is not done by
/// `end`.
template <class Call>
bool Finish(SSL* tls, int connection, SteadyTime end, const std::atomic<bool>& stopping,
            Call call) {
  while (!stopping && std::chrono::steady_clock::now() < end) {
    const int done = call();
    if (done > 0) return true;
    const int why = SSL_get_error(tls, done);
    if (why != SSL_ERROR_WANT_READ && why != SSL_ERROR_WANT_WRITE) return false;
    pollfd wait{connection, static_cast<short>(why == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT), 0};
    poll(&wait, 1, kLookMs);
  }
  return false;
}

}  // namespace

TlsFront::TlsFront(int to_port, std::unique_ptr<WebTls> tls)
    : to_port_(to_port), tls_(std::move(tls)), threads_(kThreads) {}

Result<std::unique_ptr<TlsFront>> TlsFront::Start(const std::string& listen, int to_port,
                                                  std::shared_ptr<TlsFolder> folder) {
  MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<WebTls> tls, WebTls::Make(std::move(folder)));
  std::unique_ptr<TlsFront> front(new TlsFront(to_port, std::move(tls)));
  ListenerOptions options;
  options.listen = listen;
  options.opening = Opening::kTls;
  options.on_connection = [self = front.get()](int connection, int) { self->Take(connection); };
  MILLRACE_ASSIGN_OR_RETURN(front->listener_, Listener::Start(std::move(options)));
  return front;
}

TlsFront::~TlsFront() {
  stopping_ = true;
  listener_.reset();
}

std::optional<TlsFront::Origin> TlsFront::Find(int from_port) const {
  MutexLock lock(mutex_);
  const auto found = origins_.find(from_port);
  if (found == origins_.end()) return std::nullopt;
  return found->second;
}

void TlsFront::Take(int connection) {
  if (open_ >= kMostOpen) {
    close(connection);
    return;
  }
  ++open_;
  threads_.Post([this, connection] {
    Serve(connection);
    --open_;
  });
}

void TlsFront::Serve(int connection) {
  const FileDescriptor peer(connection);
  const SslPtr tls(SSL_new(tls_->context()));
  if (stopping_ || tls == nullptr || SSL_set_fd(tls.get(), connection) != 1) return;
  const auto handshake = std::chrono::steady_clock::now() + kHandshakeWithin;
  const bool shaken =
      Finish(tls.get(), connection, handshake, stopping_, [&] { return SSL_accept(tls.get()); });
  ERR_clear_error();
  if (!shaken) return;
  const X509Ptr certificate(SSL_get1_peer_certificate(tls.get()));

  const FileDescriptor server(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int own_port = BindLoopback(server.get());
  if (own_port == 0) return;
  {
    MutexLock lock(mutex_);
    origins_[own_port] = {ShownByCertificate(certificate.get()), AddressOf(connection)};
  }
  const sockaddr_in to = Loopback(to_port_);
  if (connect(server.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0) {
    Relay(tls.get(), connection, server.get());
  }
  ERR_clear_error();
  MutexLock lock(mutex_);
  origins_.erase(own_port);
}

void TlsFront::Relay(SSL* tls, int connection, int server) const {
  const auto end = std::chrono::steady_clock::now() + kFrontAnswerWithin;
  std::array<char, 16'384> bytes;
  bool asking = true;  // whether the peer may still say something
  while (!stopping_ && std::chrono::steady_clock::now() < end) {
    pollfd wait[] = {{server, POLLIN, 0}, {connection, POLLIN, 0}};
    if (!asking) wait[1].fd = -1;
    const bool pending = asking && SSL_pending(tls) > 0;
    if (poll(wait, 2, pending ? 0 : kLookMs) < 0 && errno != EINTR) return;
    if (pending || wait[1].revents != 0) {
      const int got = SSL_read(tls, bytes.data(), static_cast<int>(bytes.size()));
      if (got > 0) {
        if (!SendAll(server, bytes.data(), static_cast<std::size_t>(got))) return;
      } else if (SSL_get_error(tls, got) != SSL_ERROR_WANT_READ) {
        asking = false;
        if (SSL_get_shutdown(tls) == 0) return;  // gone without a word
      }
    }
    if (wait[0].revents == 0) continue;
    const ssize_t got = recv(server, bytes.data(), bytes.size(), 0);
    if (got <= 0) {
      SSL_shutdown(tls);
      return;
    }
    const bool sent = Finish(tls, connection, end, stopping_,
                             [&] { return SSL_write(tls, bytes.data(), static_cast<int>(got)); });
    if (!sent) return;
  }
}

}  // namespace millrace
