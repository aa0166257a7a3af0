// The HTTP server: it takes requests from a socket, and sends the answers of a function.
//
// One thread waits for all peers, so that a peer that neither sends nor receives holds up no other.
// A few threads make the answers.
//
// Thread-safe.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "common/base/result.h"
#include "common/security/tls_folder.h"
#include "common/transport/grpc/listener.h"
#include "server/web/web_request.h"

namespace millrace {

struct WebServerOptions {
  std::string listen;              // host:port; port 0: any free port
  std::shared_ptr<TlsFolder> tls;  // null: no TLS
  /// Called for each request, from any of the server's threads.
  std::function<WebResponse(const WebRequest&)> answer;
  /// Called for each connection that is closed because it is refused. May be null.
  OnRefusedConnection on_refused = nullptr;
  /// A request has to be complete within this time, and a peer has to take some bytes of its
  /// answer.
  std::chrono::milliseconds patience{5000};
};

class WebServer {
 public:
  /// AlreadyExists if the port is in use, InvalidArgument for an address that this machine does not
  /// have.
  static Result<std::unique_ptr<WebServer>> Start(WebServerOptions options);
  /// Ends all connections.
  virtual ~WebServer() = default;

  virtual int port() const = 0;
};

}  // namespace millrace
