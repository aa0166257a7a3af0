// The HTTP server: it takes requests from a socket, and sends what it is told to answer.
//
// Thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "common/base/result.h"
#include "common/security/tls_folder.h"
#include "server/web/web_request.h"

namespace millrace {

class WebServer {
 public:
  /// Called for each request, from any of its threads.
  using Answer = std::function<WebResponse(const WebRequest&)>;

  /// Starts to listen, with TLS unless `tls` is null. AlreadyExists if the port is in use,
  /// InvalidArgument for an address that this machine does not have.
  static Result<std::unique_ptr<WebServer>> Start(const std::string& listen,
                                                  std::shared_ptr<TlsFolder> tls, Answer answer);
  /// Takes up to 2 s, because the server checks only that often whether it has to end.
  virtual ~WebServer() = default;

  virtual int port() const = 0;
};

}  // namespace millrace
