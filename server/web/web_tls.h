// TLS for the HTTP port, with the files of the daemon's TLS folder as they are at each handshake.
//
// Thread-safe.
#pragma once

#include <openssl/ssl.h>

#include <memory>
#include <string>

#include "common/access/access_policy.h"
#include "common/base/result.h"
#include "common/security/tls_folder.h"

namespace millrace {

class WebTls {
 public:
  /// Peers are asked for a certificate, but may do without one: not everybody who may see metrics
  /// has one. A certificate that is not of the folder's CA ends the handshake.
  static Result<std::unique_ptr<WebTls>> Make(std::shared_ptr<TlsFolder> folder);
  ~WebTls();
  WebTls(const WebTls&) = delete;
  WebTls& operator=(const WebTls&) = delete;

  /// Owned by this object.
  SSL_CTX* context() const { return context_; }

 private:
  WebTls(std::shared_ptr<TlsFolder> folder, SSL_CTX* context);
  static int GiveFiles(SSL* connection, void* self);

  const std::shared_ptr<TlsFolder> folder_;
  SSL_CTX* const context_;
};

/// The proof of a peer's verified certificate. `certificate` may be null.
Shown ShownByCertificate(X509* certificate);

/// The token in the header Authorization: the text after "Bearer ", or the password of "Basic ",
/// which browsers ask for. Empty if there is no token.
std::string TokenOf(const std::string& authorization);

}  // namespace millrace
