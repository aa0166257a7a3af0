#include "server/web/web_server.h"

#include <civetweb.h>

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "common/transport/grpc/listen_check.h"
#include "server/web/gzip.h"
#include "server/web/web_routes.h"
#include "server/web/web_tls.h"

namespace millrace {
namespace {

constexpr unsigned kTls = MG_FEATURES_TLS;
/// What is sent at once. Each piece has a time limit of its own, so that slow peers get all.
constexpr std::size_t kPieceBytes = 1 << 16;
/// Answers below this size are not worth compressing.
constexpr std::size_t kLeastGzipBytes = 4096;

std::string_view HeaderOf(const mg_connection* connection, const char* name) {
  const char* const value = mg_get_header(connection, name);
  return value == nullptr ? std::string_view() : std::string_view(value);
}

WebRequest RequestOf(const mg_connection* connection) {
  const mg_request_info& info = *mg_get_request_info(connection);
  WebRequest request;
  request.method = info.request_method;
  request.path = info.local_uri == nullptr ? "" : info.local_uri;
  request.host = HeaderOf(connection, "Host");
  request.peer = info.remote_addr;
  request.peer_port = info.remote_port;
  request.own_port = info.server_port;
  request.tls = info.is_ssl != 0;
  if (!request.tls) return request;
  const auto* const certificate = info.client_cert;
  request.shown = ShownByCertificate(
      certificate == nullptr ? nullptr : static_cast<X509*>(certificate->peer_cert));
  request.shown.token = TokenOf(std::string(HeaderOf(connection, "Authorization")));
  return request;
}

void Send(mg_connection* connection, const WebResponse& response, bool head) {
  std::string_view body = *response.body;
  std::string packed;
  std::string headers = fmt::format("HTTP/1.1 {} {}\r\nContent-Type: {}\r\n", response.code,
                                    mg_get_response_code_text(connection, response.code),
                                    response.type);
  for (const auto& [name, value] : response.headers) headers += name + ": " + value + "\r\n";
  if (body.size() >= kLeastGzipBytes && TakesGzip(HeaderOf(connection, "Accept-Encoding"))) {
    packed = Gzip(body);
    if (!packed.empty()) {
      body = packed;
      headers += "Content-Encoding: gzip\r\n";
    }
  }
  headers += fmt::format("Vary: Accept-Encoding\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                         body.size());
  if (mg_write(connection, headers.data(), headers.size()) <= 0 || head) return;
  while (!body.empty()) {
    const std::size_t size = std::min(body.size(), kPieceBytes);
    if (mg_write(connection, body.data(), size) <= 0) return;  // the peer is gone, or stands still
    body.remove_prefix(size);
  }
}

/// Civetweb's library, while there is a server.
class Library {
 public:
  explicit Library(unsigned features) : features_(mg_init_library(features)) {}
  ~Library() { mg_exit_library(); }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
  bool Has(unsigned features) const { return (features_ & features) == features; }

 private:
  const unsigned features_;
};

class CivetServer final : public WebServer {
 public:
  CivetServer(std::unique_ptr<WebTls> tls, Answer answer)
      : tls_(std::move(tls)), library_(tls_ == nullptr ? 0 : kTls), answer_(std::move(answer)) {}
  ~CivetServer() override {
    if (context_ != nullptr) mg_stop(context_);
  }
  CivetServer(const CivetServer&) = delete;
  CivetServer& operator=(const CivetServer&) = delete;

  Status Begin(const std::string& listen) {
    if (tls_ != nullptr && !library_.Has(kTls)) {
      return FailedPrecondition(
          "the HTTP port cannot speak TLS: civetweb found no libssl.so and libcrypto.so, which the "
          "package libssl-dev has");
    }
    mg_callbacks callbacks{};
    callbacks.begin_request = &CivetServer::OnRequest;
    callbacks.http_error = &CivetServer::OnError;
    if (tls_ != nullptr) callbacks.external_ssl_ctx = &CivetServer::OnTls;
    const std::string ports = listen + (tls_ == nullptr ? "" : "s");
    // A request that does not come to its end holds a thread until its time is over.
    const char* options[] = {"listening_ports", ports.c_str(), "num_threads", "16",
                             "request_timeout_ms", "1000", nullptr};
    char text[512] = {};
    mg_init_data start{};
    start.callbacks = &callbacks;
    start.user_data = this;
    start.configuration_options = options;
    mg_error_data error{};
    error.text = text;
    error.text_buffer_size = sizeof text;
    context_ = mg_start2(&start, &error);
    if (context_ != nullptr) return OkStatus();
    return AlreadyExists(fmt::format("cannot listen on {} for metrics: {}", listen, text));
  }

  int port() const override {
    mg_server_port found{};
    return mg_get_server_ports(context_, 1, &found) < 1 ? 0 : found.port;
  }

 private:
  static CivetServer& Of(const mg_connection* connection) {
    return *static_cast<CivetServer*>(mg_get_user_data(mg_get_context(connection)));
  }
  static int OnRequest(mg_connection* connection) {
    const WebRequest request = RequestOf(connection);
    const WebResponse response = Of(connection).answer_(request);
    Send(connection, response, request.method == "HEAD");
    return response.code;
  }
  /// Of requests that are none: civetweb tells no more than their code.
  static int OnError(mg_connection* connection, int code, const char* /*text*/) {
    WebResponse response = TextResponse(code, "bad request");
    WebRoutes::AddSafety(response);
    Send(connection, response, false);
    return 0;
  }
  static int OnTls(void** context, void* self) {
    *context = static_cast<CivetServer*>(self)->tls_->context();
    return 1;
  }

  const std::unique_ptr<WebTls> tls_;  // null: no TLS
  const Library library_;
  const Answer answer_;
  mg_context* context_ = nullptr;
};

}  // namespace

Result<std::unique_ptr<WebServer>> WebServer::Start(const std::string& listen,
                                                    std::shared_ptr<TlsFolder> tls,
                                                    Answer answer) {
  MILLRACE_RETURN_IF_ERROR(CheckListen(listen));
  std::unique_ptr<WebTls> context;
  if (tls != nullptr) {
    MILLRACE_ASSIGN_OR_RETURN(context, WebTls::Make(std::move(tls)));
  }
  auto server = std::make_unique<CivetServer>(std::move(context), std::move(answer));
  MILLRACE_RETURN_IF_ERROR(server->Begin(listen));
  return std::unique_ptr<WebServer>(std::move(server));
}

}  // namespace millrace
