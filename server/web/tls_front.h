// Speaks TLS for an HTTP server that cannot: it takes connections, passes their bytes on to that
// server over loopback without TLS, and tells it who is behind each.
//
// Debian 12's civetweb was built for the OpenSSL before its own, and finds no TLS at all.
//
// Thread-safe.
#pragma once

#include <openssl/ssl.h>

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "common/base/result.h"
#include "common/security/tls_folder.h"
#include "common/system/mutex.h"
#include "common/transport/grpc/listener.h"
#include "common/transport/strand.h"
#include "server/web/web_request.h"
#include "server/web/web_tls.h"

namespace millrace {

class TlsFront {
 public:
  /// The other end of a connection that is passed on.
  struct Origin {
    Shown shown;          // the certificate, which was verified; never a token
    std::string address;  // numeric
  };

  /// Listens at `listen`, and passes on to 127.0.0.1:`to_port`. Errors are those of Listener.
  static Result<std::unique_ptr<TlsFront>> Start(const std::string& listen, int to_port,
                                                 std::shared_ptr<TlsFolder> folder);
  /// Ends all connections.
  ~TlsFront();
  TlsFront(const TlsFront&) = delete;
  TlsFront& operator=(const TlsFront&) = delete;

  int port() const { return listener_->port(); }
  /// Who is behind the connection that reaches the server from that port of 127.0.0.1. Empty for
  /// one that does not come from here.
  std::optional<Origin> Find(int from_port) const;

 private:
  TlsFront(int to_port, std::unique_ptr<WebTls> tls);
  void Take(int connection);
  void Serve(int connection);
  /// Passes bytes on in both directions until the server closes.
  void Relay(SSL* tls, int connection, int server) const;

  const int to_port_;
  const std::unique_ptr<WebTls> tls_;
  std::atomic<bool> stopping_{false};
  std::atomic<int> open_{0};
  mutable Mutex mutex_;
  std::map<int, Origin> origins_ MILLRACE_GUARDED_BY(mutex_);  // by port
  Executor threads_;
  std::unique_ptr<Listener> listener_;
};

}  // namespace millrace
