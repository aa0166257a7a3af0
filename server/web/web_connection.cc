#include "server/web/web_connection.h"

#include <netdb.h>
#include <netinet/in.h>
#include <openssl/err.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "server/web/web_tls.h"

namespace millrace {
namespace {

constexpr std::size_t kSentAtOnce = 1 << 16;

/// One end of a connection, as numbers.
struct SocketEnd {
  std::string address;
  int port = 0;
};

template <class GetName>
SocketEnd EndOf(int socket, GetName get_name) {
  sockaddr_storage name{};
  socklen_t size = sizeof name;
  auto* const address = reinterpret_cast<sockaddr*>(&name);
  char host[NI_MAXHOST] = {};
  SocketEnd end;
  if (get_name(socket, address, &size) != 0) return end;
  if (getnameinfo(address, size, host, sizeof host, nullptr, 0, NI_NUMERICHOST) != 0) return end;
  end.address = host;
  end.port = ntohs(name.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&name)->sin6_port
                                              : reinterpret_cast<sockaddr_in*>(&name)->sin_port);
  return end;
}

SSL* NewTls(SSL_CTX* context, int socket) {
  if (context == nullptr) return nullptr;
  SSL* const tls = SSL_new(context);
  if (tls == nullptr) return nullptr;
  SSL_set_fd(tls, socket);
  SSL_set_accept_state(tls);
  SSL_set_mode(tls, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  return tls;
}

}  // namespace

WebConnection::WebConnection(FileDescriptor socket, SSL_CTX* tls)
    : socket_(std::move(socket)), tls_(NewTls(tls, socket_.get())), shaken_(tls == nullptr) {
  if (!shaken_ && tls_ == nullptr) state_ = State::kOver;
}

void WebConnection::Advance() {
  while (Step()) {
  }
}

bool WebConnection::Step() {
  events_ = 0;
  switch (state_) {
    case State::kAsks:
      return shaken_ ? ReadSome() : Shake();
    case State::kTakes:
      return SendSome();
    case State::kLeaves:
      return Drain();
    default:
      return false;
  }
}

bool WebConnection::Shake() {
  const int done = SSL_do_handshake(tls_.get());
  shaken_ = done == 1;
  if (!shaken_) WaitOrEnd(done);
  return shaken_;
}

bool WebConnection::ReadSome() {
  std::array<char, kMostHeadBytes> bytes;
  const std::size_t got = Receive(bytes.data(), bytes.size() - said_.size());
  if (got == 0) return false;
  said_.append(bytes.data(), got);
  const std::optional<std::size_t> size = HeadSize(said_);
  if (!size && said_.size() < kMostHeadBytes) return true;
  std::optional<HttpHead> head;
  if (size) head = ReadHead(std::string_view(said_).substr(0, *size));
  state_ = head ? State::kWaits : State::kBad;
  if (head) head_ = *std::move(head);
  return false;
}

WebRequest WebConnection::Request() const {
  const SocketEnd peer = EndOf(socket_.get(), &getpeername);
  WebRequest request;
  request.method = head_.method;
  request.path = head_.path;
  request.host = head_.host;
  request.peer = peer.address;
  request.peer_port = peer.port;
  request.own_port = EndOf(socket_.get(), &getsockname).port;
  if (tls_ == nullptr) return request;
  const X509Ptr certificate(SSL_get1_peer_certificate(tls_.get()));
  request.tls = true;
  request.shown = ShownByCertificate(certificate.get());
  request.shown.token = TokenOf(head_.authorization);
  return request;
}

void WebConnection::Answer(WebAnswer answer) {
  answer_ = std::move(answer);
  state_ = State::kTakes;
}

bool WebConnection::SendSome() {
  const std::size_t head = answer_.head.size();
  const std::string_view rest = sent_ < head ? std::string_view(answer_.head).substr(sent_)
                                             : std::string_view(*answer_.body).substr(sent_ - head);
  if (!rest.empty()) {
    const std::size_t bytes = Send(rest.substr(0, kSentAtOnce));
    sent_ += bytes;
    return bytes > 0;
  }
  // A peer that has said more than a head would lose the answer if the connection were closed now.
  if (tls_ != nullptr) SSL_shutdown(tls_.get());
  ERR_clear_error();
  shutdown(socket_.get(), SHUT_WR);
  state_ = State::kLeaves;
  return true;
}

bool WebConnection::Drain() {
  std::array<char, 4096> bytes;
  const ssize_t got = recv(socket_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
  if (got > 0 || (got < 0 && errno == EINTR)) return true;
  if (got == 0 || errno != EAGAIN) return End();
  events_ = POLLIN;
  return false;
}

std::size_t WebConnection::Receive(char* bytes, std::size_t size) {
  if (tls_ != nullptr) {
    const int got = SSL_read(tls_.get(), bytes, static_cast<int>(size));
    return got > 0 ? static_cast<std::size_t>(got) : WaitOrEnd(got);
  }
  ssize_t got = -1;
  do {
    got = recv(socket_.get(), bytes, size, MSG_DONTWAIT);
  } while (got < 0 && errno == EINTR);
  if (got > 0) return static_cast<std::size_t>(got);
  if (got < 0 && errno == EAGAIN) {
    events_ = POLLIN;
  } else {
    End();
  }
  return 0;
}

std::size_t WebConnection::Send(std::string_view bytes) {
  if (tls_ != nullptr) {
    const int sent = SSL_write(tls_.get(), bytes.data(), static_cast<int>(bytes.size()));
    return sent > 0 ? static_cast<std::size_t>(sent) : WaitOrEnd(sent);
  }
  ssize_t sent = -1;
  do {
    sent = send(socket_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  if (sent > 0) return static_cast<std::size_t>(sent);
  if (sent < 0 && errno == EAGAIN) {
    events_ = POLLOUT;
  } else {
    End();
  }
  return 0;
}

std::size_t WebConnection::WaitOrEnd(int tls_result) {
  const int why = SSL_get_error(tls_.get(), tls_result);
  ERR_clear_error();
  if (why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE) {
    events_ = why == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT;
  } else {
    End();
  }
  return 0;
}

bool WebConnection::End() {
  state_ = State::kOver;
  return false;
}

}  // namespace millrace
