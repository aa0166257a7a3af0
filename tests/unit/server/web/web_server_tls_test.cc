#include "server/web/web_server.h"

#include <openssl/bio.h>
#include <openssl/ssl.h>

#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "common/security/x509.h"
#include "server/web/web_routes.h"
#include "tests/support/certificates.h"
#include "tests/support/fake_clock.h"
#include "tests/support/recording_logger.h"

namespace millrace::test {
namespace {

/// A server with TLS that says who asks, and then a megabyte.
struct Secured {
  Certificates folder;
  std::string own = folder.Add("serve", {PeerRole::kDispatcher});
  std::shared_ptr<FakeClock> clock = std::make_shared<FakeClock>(Certificates::Now());
  std::unique_ptr<WebServer> server;

  Secured() {
    auto tls = TlsFolder::Open({.folder = own, .roles = {PeerRole::kDispatcher}}, clock,
                               std::make_shared<RecordingLogger>());
    REQUIRE(tls.ok());
    auto started = WebServer::Start({.listen = "127.0.0.1:0",
                                     .tls = *tls,
                                     .answer = [](const WebRequest& request) {
                                       const Shown& shown = request.shown;
                                       return TextResponse(
                                           200, (shown.certificate ? shown.common_name : "nobody") +
                                                    " " + shown.token + " " + request.peer + " " +
                                                    std::string(1 << 20, 'x'));
                                     }});
    REQUIRE(started.ok());
    server = *std::move(started);
  }

  /// The answer to a peer with the certificate of `with`, if that is not empty. Empty if the
  /// handshake fails.
  std::string Ask(const std::string& with, const std::string& headers = "") {
    SSL_CTX* const context = SSL_CTX_new(TLS_client_method());
    SSL_CTX_load_verify_locations(context, (own + "/ca.crt").c_str(), nullptr);
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
    if (!with.empty()) {
      SSL_CTX_use_certificate_file(context, (with + "/tls.crt").c_str(), SSL_FILETYPE_PEM);
      SSL_CTX_use_PrivateKey_file(context, (with + "/tls.key").c_str(), SSL_FILETYPE_PEM);
    }
    std::string answer;
    {
      const BioPtr bio(BIO_new_ssl_connect(context));
      BIO_set_conn_hostname(bio.get(), ("127.0.0.1:" + std::to_string(server->port())).c_str());
      const std::string request = "GET / HTTP/1.1\r\nHost: a\r\n" + headers + "\r\n";
      char bytes[16384];
      if (BIO_write(bio.get(), request.data(), static_cast<int>(request.size())) > 0) {
        for (int got = 0; (got = BIO_read(bio.get(), bytes, sizeof bytes)) > 0;) {
          answer.append(bytes, static_cast<std::size_t>(got));
        }
      }
    }
    SSL_CTX_free(context);
    TakeSslError();
    return answer;
  }
};

std::string BodyStart(const std::string& answer) {
  const std::size_t at = answer.find("\r\n\r\n");
  return at == std::string::npos ? "" : answer.substr(at + 4, 40);
}

TEST_CASE("over TLS a request comes with its certificate's name, and gets all of its answer",
          "[web]") {
  Secured s;
  const std::string answer = s.Ask(s.folder.Add("alice", {PeerRole::kViewer}));
  CHECK(BodyStart(answer).starts_with("alice  127.0.0.1 xxx"));
  CHECK(answer.ends_with(std::string(1 << 20, 'x') + "\n"));
}

TEST_CASE("over TLS a peer without a certificate is nobody, and may show a token", "[web]") {
  Secured s;
  CHECK(BodyStart(s.Ask("")).starts_with("nobody  127"));
  CHECK(BodyStart(s.Ask("", "Authorization: Bearer t\r\n")).starts_with("nobody t 127"));
}

TEST_CASE("a certificate of another CA ends the handshake", "[web]") {
  Secured s;
  CHECK(s.Ask(s.folder.AddOf(Certificates::MakeCa(), "mallory", {PeerRole::kOperator})).empty());
}

TEST_CASE("over TLS, too, peers who say nothing hold nobody up", "[web]") {
  Secured s;
  SSL_CTX* const context = SSL_CTX_new(TLS_client_method());
  std::vector<BioPtr> silent;
  for (int i = 0; i < 40; ++i) {
    silent.emplace_back(BIO_new_ssl_connect(context));
    BIO_set_conn_hostname(silent.back().get(),
                          ("127.0.0.1:" + std::to_string(s.server->port())).c_str());
    REQUIRE(BIO_do_handshake(silent.back().get()) == 1);
  }
  CHECK(BodyStart(s.Ask("")).starts_with("nobody  127"));
  silent.clear();
  SSL_CTX_free(context);
  TakeSslError();
}

}  // namespace
}  // namespace millrace::test
