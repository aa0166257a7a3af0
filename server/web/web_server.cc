#include "server/web/web_server.h"

#include <civetweb.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "common/system/mutex.h"
#include "common/transport/grpc/listen_check.h"
#include "server/web/gzip.h"
#include "server/web/tls_front.h"
#include "server/web/web_routes.h"

namespace millrace {
namespace {

/// What is sent at once. Each piece has a time limit of its own, so that slow peers get all.
constexpr std::size_t kSentPieceBytes = 1 << 16;
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
  return request;
}

void Send(mg_connection* connection, const WebResponse& response, bool head) {
  std::string_view body = *response.body;
  std::string packed;
  std::string headers =
      fmt::format("HTTP/1.1 {} {}\r\nContent-Type: {}\r\n", response.code,
                  mg_get_response_code_text(connection, response.code), response.type);
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
    const std::size_t size = std::min(body.size(), kSentPieceBytes);
    if (mg_write(connection, body.data(), size) <= 0) return;  // the peer is gone, or stands still
    body.remove_prefix(size);
  }
}

/// Civetweb's library, while there is a server.
class Library {
 public:
  Library() { mg_init_library(0); }
  ~Library() { mg_exit_library(); }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
};

class CivetServer final : public WebServer {
 public:
  explicit CivetServer(Answer answer) : answer_(std::move(answer)) {}
  ~CivetServer() override {
    // Its connections end first. They ask this server nothing any more, so that nobody looks at it.
    std::unique_ptr<TlsFront> front;
    {
      MutexLock lock(mutex_);
      front = std::move(front_);
    }
    front.reset();
    if (context_ != nullptr) mg_stop(context_);
  }
  CivetServer(const CivetServer&) = delete;
  CivetServer& operator=(const CivetServer&) = delete;

  Status Begin(const std::string& listen, std::shared_ptr<TlsFolder> tls) {
    behind_front_ = tls != nullptr;
    MILLRACE_RETURN_IF_ERROR(Listen(behind_front_ ? "127.0.0.1:0" : listen));
    if (!behind_front_) return OkStatus();
    MILLRACE_ASSIGN_OR_RETURN(auto front, TlsFront::Start(listen, OwnPort(), std::move(tls)));
    MutexLock lock(mutex_);
    front_ = std::move(front);
    return OkStatus();
  }

  int port() const override {
    MutexLock lock(mutex_);
    return front_ != nullptr ? front_->port() : OwnPort();
  }

 private:
  Status Listen(const std::string& listen) {
    mg_callbacks callbacks{};
    callbacks.begin_request = &CivetServer::OnRequest;
    callbacks.http_error = &CivetServer::OnError;
    // A request that does not come to its end holds a thread until its time is over.
    const char* options[] = {"listening_ports",    listen.c_str(), "num_threads", "16",
                             "request_timeout_ms", "1000",         nullptr};
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

  int OwnPort() const {
    mg_server_port found{};
    return mg_get_server_ports(context_, 1, &found) < 1 ? 0 : found.port;
  }
  static CivetServer& Of(const mg_connection* connection) {
    return *static_cast<CivetServer*>(mg_get_user_data(mg_get_context(connection)));
  }
  static int OnRequest(mg_connection* connection) {
    WebRequest request = RequestOf(connection);
    CivetServer& self = Of(connection);
    const std::string authorization(HeaderOf(connection, "Authorization"));
    const WebResponse response = self.AddOrigin(authorization, request)
                                     ? self.answer_(request)
                                     : TextResponse(403, "connect to the daemon's own port");
    Send(connection, response, request.method == "HEAD");
    return response.code;
  }
  /// Adds who is behind a request that came over TLS. False for one that came past it.
  bool AddOrigin(const std::string& authorization, WebRequest& request) const {
    if (!behind_front_) return true;
    std::optional<TlsFront::Origin> origin;
    {
      MutexLock lock(mutex_);
      if (front_ != nullptr) origin = front_->Find(request.peer_port);
    }
    if (!origin) return false;
    request.tls = true;
    request.peer = origin->address;
    request.shown = origin->shown;
    request.shown.token = TokenOf(authorization);
    return true;
  }
  /// Of requests that are none: civetweb tells no more than their code.
  static int OnError(mg_connection* connection, int code, const char* /*text*/) {
    WebResponse response = TextResponse(code, "bad request");
    WebRoutes::AddSafety(response);
    Send(connection, response, false);
    return 0;
  }

  const Library library_;
  const Answer answer_;
  bool behind_front_ = false;  // not changed once requests come
  mutable Mutex mutex_;
  std::unique_ptr<TlsFront> front_ MILLRACE_GUARDED_BY(mutex_);  // null: no TLS
  mg_context* context_ = nullptr;
};

}  // namespace

Result<std::unique_ptr<WebServer>> WebServer::Start(const std::string& listen,
                                                    std::shared_ptr<TlsFolder> tls, Answer answer) {
  MILLRACE_RETURN_IF_ERROR(CheckListen(listen));
  auto server = std::make_unique<CivetServer>(std::move(answer));
  MILLRACE_RETURN_IF_ERROR(server->Begin(listen, std::move(tls)));
  return std::unique_ptr<WebServer>(std::move(server));
}

}  // namespace millrace
