#include "common/security/tls_probe.h"

#include <fcntl.h>
#include <netdb.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/core.h>

#include "common/base/addresses.h"
#include "common/security/x509.h"
#include "common/system/file_descriptor.h"

namespace millrace {
namespace {

using SteadyTime = std::chrono::steady_clock::time_point;
using SslContextPtr = std::unique_ptr<SSL_CTX, FreeWith<SSL_CTX_free>>;
using SslPtr = std::unique_ptr<SSL, FreeWith<SSL_free>>;

/// The alert of a refused client certificate comes after the handshake (RFC 8446, section 4.4.2).
constexpr std::chrono::milliseconds kAlertWithin(500);

/// Waits for `events` of a socket. False if `end` comes first.
bool WaitFor(int socket, short events, SteadyTime end) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
      end - std::chrono::steady_clock::now());
  pollfd wait{socket, events, 0};
  return left.count() > 0 && poll(&wait, 1, static_cast<int>(left.count())) > 0;
}

/// Keeps SIGPIPE from this thread: OpenSSL writes to sockets without MSG_NOSIGNAL.
class NoSigpipe {
 public:
  NoSigpipe() {
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    sigset_t pending;
    sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGPIPE) == 1;
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~NoSigpipe() {
    const timespec at_once{};
    while (!was_pending_ && sigtimedwait(&pipe_, nullptr, &at_once) == SIGPIPE) {
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  NoSigpipe(const NoSigpipe&) = delete;
  NoSigpipe& operator=(const NoSigpipe&) = delete;

 private:
  sigset_t pipe_;
  sigset_t before_;
  bool was_pending_;
};

/// -1 if nothing answers there.
int Connect(const std::string& address, SteadyTime end) {
  const std::optional<HostPort> parsed = ParseHostPort(address);
  if (!parsed) return -1;
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  if (getaddrinfo(parsed->host.c_str(), std::to_string(parsed->port).c_str(), &hints, &list) != 0) {
    return -1;
  }
  const std::unique_ptr<addrinfo, FreeWith<freeaddrinfo>> addresses(list);
  for (const addrinfo* at = list; at != nullptr; at = at->ai_next) {
    const int fd =
        socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, at->ai_protocol);
    if (fd < 0) continue;
    (void)connect(fd, at->ai_addr, at->ai_addrlen);
    pollfd wait{fd, POLLOUT, 0};
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        end - std::chrono::steady_clock::now());
    int error = 0;
    socklen_t size = sizeof error;
    if (left.count() > 0 && poll(&wait, 1, static_cast<int>(left.count())) > 0 &&
        getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == 0) {
      return fd;
    }
    close(fd);
  }
  return -1;
}

SslContextPtr MakeContext(const TlsFiles* files) {
  SslContextPtr context(SSL_CTX_new(TLS_client_method()));
  static constexpr unsigned char kHttp2[] = {2, 'h', '2'};
  SSL_CTX_set_alpn_protos(context.get(), kHttp2, sizeof kHttp2);
  if (files == nullptr) return context;
  X509_STORE* const store = SSL_CTX_get_cert_store(context.get());
  for (const X509Ptr& ca : ParseCertificates(files->ca)) X509_STORE_add_cert(store, ca.get());
  const std::vector<X509Ptr> chain = ParseCertificates(files->certificate);
  const KeyPtr key = ParseKey(files->key);
  if (chain.empty() || key == nullptr) return context;
  SSL_CTX_use_certificate(context.get(), chain.front().get());
  for (std::size_t i = 1; i < chain.size(); ++i) {
    SSL_CTX_add1_chain_cert(context.get(), chain[i].get());
  }
  SSL_CTX_use_PrivateKey(context.get(), key.get());
  return context;
}

/// Repeats `step` until it is done (true) or fails (false). Nothing: `end` came first.
template <class Step>
std::optional<bool> Repeat(int socket, SSL& ssl, SteadyTime end, Step step) {
  for (;;) {
    const int done = step();
    if (done > 0) return true;
    const int error = SSL_get_error(&ssl, done);
    if (error != SSL_ERROR_WANT_READ && error != SSL_ERROR_WANT_WRITE) return false;
    if (!WaitFor(socket, error == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT, end)) return std::nullopt;
  }
}

Status Refused(std::string message) { return {StatusCode::kUnauthenticated, std::move(message)}; }

std::string NamesOf(const STACK_OF(X509_NAME) * names) {
  std::string text;
  for (int i = 0; names != nullptr && i < sk_X509_NAME_num(names); ++i) {
    text += (text.empty() ? "" : "; ") + TextOf(sk_X509_NAME_value(names, i));
  }
  return text;
}

/// Explains that the server closes the connection after it has seen the client's certificate, or
/// sends an alert. gRPC's servers send none.
Status ExplainRefusal(const TlsProbe& probe, SSL& ssl) {
  if (probe.files->certificate.empty()) {
    return Refused(
        fmt::format("the server at {} wants a certificate, and {} has none: expected "
                    "tls.crt and tls.key there, since this server takes no tokens",
                    probe.address, probe.folder));
  }
  const std::vector<X509Ptr> chain = ParseCertificates(probe.files->certificate);
  // The CAs that the server takes, as its request for a certificate names them.
  const std::string taken = NamesOf(SSL_get0_peer_CA_list(&ssl));
  const std::string issuer = IssuerOf(*chain.back());
  return Refused(
      fmt::format("the server at {} refuses {}/tls.crt, whose issuer is {}: it takes certificates "
                  "of {} that are "
                  "valid by its clock; its log says more",
                  probe.address, probe.folder, issuer, taken.empty() ? "its CA" : taken));
}

bool IsAlert(int reason) {
  // OpenSSL numbers the alerts of a peer from 1000 on (ssl.h).
  return reason >= SSL_AD_REASON_OFFSET;
}

Status ExplainHandshake(const TlsProbe& probe, SSL& ssl, int reason) {
  const long verified = SSL_get_verify_result(&ssl);
  if (verified != X509_V_OK) {
    return Refused(fmt::format(
        "the certificate of the server at {} does not pass {}/ca.crt: {}; both ends need valid "
        "certificates of one CA",
        probe.address, probe.folder, X509_verify_cert_error_string(verified)));
  }
  if (IsAlert(reason)) return ExplainRefusal(probe, ssl);
  return Refused(
      fmt::format("the server at {} speaks no TLS: start it with --tls, or connect "
                  "without (--tls, MILLRACE_TLS)",
                  probe.address));
}

}  // namespace

Status ExplainTls(const TlsProbe& probe) {
  const NoSigpipe no_sigpipe;
  const SteadyTime end = std::chrono::steady_clock::now() +
                         std::chrono::milliseconds(static_cast<int>(probe.timeout_seconds * 1e3));
  const FileDescriptor socket(Connect(probe.address, end));
  if (socket.get() < 0) return OkStatus();
  const SslContextPtr context = MakeContext(probe.files);
  const SslPtr ssl(SSL_new(context.get()));
  if (probe.files != nullptr) SSL_set_verify(ssl.get(), SSL_VERIFY_PEER, nullptr);
  SSL_set_fd(ssl.get(), socket.get());
  ERR_clear_error();
  const std::optional<bool> connected =
      Repeat(socket.get(), *ssl, end, [&] { return SSL_connect(ssl.get()); });
  const int reason = ERR_GET_REASON(ERR_peek_error());
  ERR_clear_error();
  if (!connected) return OkStatus();
  if (probe.files == nullptr) {
    if (!*connected && !IsAlert(reason)) return OkStatus();
    return Refused(fmt::format(
        "the server at {} wants TLS: give the folder of a certificate (--tls, MILLRACE_TLS)",
        probe.address));
  }
  if (!*connected) return ExplainHandshake(probe, *ssl, reason);
  const X509Ptr certificate(SSL_get1_peer_certificate(ssl.get()));
  const PeerRoles roles =
      certificate == nullptr ? PeerRoles() : RolesAmong(DnsNamesOf(*certificate));
  if (!roles.Has(probe.server)) {
    return Refused(
        fmt::format("the server at {} proves the role {}, expected {}: is that its "
                    "address, and does it have the right certificate?",
                    probe.address, roles.ToString(), PeerRoleName(probe.server)));
  }
  // What comes next is the server's first frame, or an alert about the client's certificate.
  char byte = 0;
  const std::optional<bool> read =
      Repeat(socket.get(), *ssl, std::min(end, std::chrono::steady_clock::now() + kAlertWithin),
             [&] { return SSL_read(ssl.get(), &byte, 1); });
  ERR_clear_error();
  return read && !*read ? ExplainRefusal(probe, *ssl) : OkStatus();
}

}  // namespace millrace
