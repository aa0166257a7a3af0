#include "server/web/web_server.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "common/system/errno_status.h"
#include "common/system/file_descriptor.h"
#include "common/system/mutex.h"
#include "common/transport/grpc/peer_name.h"
#include "common/transport/strand.h"
#include "server/web/gzip.h"
#include "server/web/http_text.h"
#include "server/web/web_connection.h"
#include "server/web/web_routes.h"
#include "server/web/web_tls.h"

namespace millrace {
namespace {

using SteadyTime = std::chrono::steady_clock::time_point;

constexpr int kAnsweringThreads = 8;
/// One more connection pushes out the one that came first of those whose request is not whole.
constexpr std::size_t kMostConnections = 256;
/// Answers below this size are not worth compressing.
constexpr std::size_t kLeastGzipBytes = 4096;

WebAnswer AnswerOf(const WebResponse& response, const HttpHead& head) {
  std::shared_ptr<const std::string> body = response.body;
  bool gzip = false;
  if (body->size() >= kLeastGzipBytes && TakesGzip(head.accept_encoding)) {
    std::string packed = Gzip(*body);
    gzip = !packed.empty();
    if (gzip) body = std::make_shared<const std::string>(std::move(packed));
  }
  WebAnswer answer{AnswerHead(response, body->size(), gzip), std::move(body)};
  if (head.method == "HEAD") answer.body = std::make_shared<const std::string>();
  return answer;
}

WebAnswer AnswerToNoRequest() {
  WebResponse response = TextResponse(400, "bad request");
  WebRoutes::AddSafety(response);
  return AnswerOf(response, HttpHead());
}

class HttpServer final : public WebServer {
 public:
  explicit HttpServer(WebServerOptions options)
      : options_(std::move(options)), threads_(kAnsweringThreads) {}
  ~HttpServer() override {
    listener_.reset();
    if (!loop_.joinable()) return;
    {
      MutexLock lock(mutex_);
      stopping_ = true;
    }
    Wake();
    loop_.join();
  }
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  Status Begin() {
    if (options_.tls != nullptr) {
      MILLRACE_ASSIGN_OR_RETURN(tls_, WebTls::Make(options_.tls));
    }
    if (wake_.get() < 0) return ErrnoStatus("no eventfd for the HTTP port", errno);
    ListenerOptions listening;
    listening.listen = options_.listen;
    listening.opening = tls_ != nullptr ? Opening::kTls : Opening::kAnything;
    listening.on_connection = [this](int connection, int) { Take(FileDescriptor(connection)); };
    listening.on_refused = options_.on_refused;
    MILLRACE_ASSIGN_OR_RETURN(listener_, Listener::Start(std::move(listening)));
    loop_ = std::thread([this] { Run(); });
    return OkStatus();
  }

  int port() const override { return listener_->port(); }

 private:
  using Id = std::uint64_t;  // in the order in which connections came

  struct Asker {
    Asker(FileDescriptor socket, SSL_CTX* context, SteadyTime late)
        : connection(std::move(socket), context), end(late) {}

    WebConnection connection;
    SteadyTime end;  // when it has stood still for too long
    std::size_t sent = 0;
  };

  /// What other threads have for the loop.
  struct News {
    std::vector<FileDescriptor> connections;
    std::vector<std::pair<Id, WebAnswer>> answers;
  };

  void Take(FileDescriptor connection) {
    {
      MutexLock lock(mutex_);
      news_.connections.push_back(std::move(connection));
    }
    Wake();
  }
  void Wake() const {
    const std::uint64_t one = 1;
    (void)!write(wake_.get(), &one, sizeof one);
  }
  /// Nothing if the server stops.
  std::optional<News> TakeNews() {
    std::uint64_t count = 0;
    (void)!read(wake_.get(), &count, sizeof count);
    MutexLock lock(mutex_);
    if (stopping_) return std::nullopt;
    return std::exchange(news_, News());
  }

  void Run() {
    while (std::optional<News> news = TakeNews()) {
      for (FileDescriptor& connection : news->connections) Admit(std::move(connection));
      for (auto& [id, answer] : news->answers) {
        const auto peer = peers_.find(id);
        if (peer == peers_.end()) continue;
        peer->second.connection.Answer(std::move(answer));
        Advance(id, peer->second);
      }
      Wait();
      EndLate();
    }
    peers_.clear();
  }

  void Admit(FileDescriptor connection) {
    if (peers_.size() >= kMostConnections && !MakeRoom()) {
      return Refuse(connection.get(), RefusedConnection::kTooMany);
    }
    const Id id = ++last_id_;
    SSL_CTX* const context = tls_ == nullptr ? nullptr : tls_->context();
    Advance(id, peers_.try_emplace(id, std::move(connection), context, Later()).first->second);
  }

  /// False if all peers wait for their answers.
  bool MakeRoom() {
    using State = WebConnection::State;
    const auto is_in = [](State state) {
      return [state](const auto& entry) { return entry.second.connection.state() == state; };
    };
    auto found = std::find_if(peers_.begin(), peers_.end(), is_in(State::kAsks));
    for (const State state : {State::kLeaves, State::kTakes}) {
      if (found == peers_.end()) found = std::find_if(peers_.begin(), peers_.end(), is_in(state));
    }
    if (found == peers_.end()) return false;
    EndPeer(found);
    return true;
  }

  void Advance(Id id, Asker& peer) {
    using State = WebConnection::State;
    const State before = peer.connection.state();
    peer.connection.Advance();
    if (peer.connection.state() == State::kBad) {
      peer.connection.Answer(AnswerToNoRequest());
      peer.connection.Advance();
    }
    const State now = peer.connection.state();
    if (now != before || peer.connection.sent() > peer.sent) peer.end = Later();
    peer.sent = peer.connection.sent();
    if (now == State::kWaits && before != now) {
      threads_.Post([this, id, request = peer.connection.Request(), head = peer.connection.head()] {
        WebAnswer answer = AnswerOf(options_.answer(request), head);
        {
          MutexLock lock(mutex_);
          news_.answers.emplace_back(id, std::move(answer));
        }
        Wake();
      });
    }
    if (now == State::kOver) peers_.erase(id);
  }

  /// Waits for peers, for news and for the end of the first that is late, and serves those that
  /// have moved.
  void Wait() {
    waits_ = {{wake_.get(), POLLIN, 0}};
    waiting_.clear();
    std::optional<SteadyTime> first;
    for (const auto& [id, peer] : peers_) {
      if (peer.connection.events() == 0) continue;
      waits_.push_back({peer.connection.socket(), peer.connection.events(), 0});
      waiting_.push_back(id);
      first = first ? std::min(*first, peer.end) : peer.end;
    }
    int left = -1;
    if (first) {
      const auto time =
          std::chrono::ceil<std::chrono::milliseconds>(*first - std::chrono::steady_clock::now());
      left = static_cast<int>(std::max<std::int64_t>(time.count(), 0));
    }
    if (poll(waits_.data(), waits_.size(), left) <= 0) return;
    for (std::size_t i = 0; i < waiting_.size(); ++i) {
      if (waits_[i + 1].revents != 0) Advance(waiting_[i], peers_.at(waiting_[i]));
    }
  }

  void EndLate() {
    const SteadyTime now = std::chrono::steady_clock::now();
    for (auto at = peers_.begin(); at != peers_.end();) {
      const auto peer = at++;
      if (peer->second.connection.events() != 0 && peer->second.end <= now) EndPeer(peer);
    }
  }

  void EndPeer(std::map<Id, Asker>::iterator peer) {
    const WebConnection& connection = peer->second.connection;
    if (connection.state() == WebConnection::State::kAsks) {
      Refuse(connection.socket(), RefusedConnection::kSilent);
    }
    peers_.erase(peer);
  }

  void Refuse(int connection, RefusedConnection why) const {
    if (options_.on_refused) options_.on_refused(why, PeerName(connection));
  }

  SteadyTime Later() const { return std::chrono::steady_clock::now() + options_.patience; }

  const WebServerOptions options_;
  std::unique_ptr<WebTls> tls_;  // null: no TLS
  const FileDescriptor wake_{eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  Mutex mutex_;
  News news_ MILLRACE_GUARDED_BY(mutex_);
  bool stopping_ MILLRACE_GUARDED_BY(mutex_) = false;
  // These are the loop's.
  std::map<Id, Asker> peers_;
  Id last_id_ = 0;
  std::vector<pollfd> waits_;
  std::vector<Id> waiting_;  // the peers of `waits_`, whose first one is `wake_`
  std::thread loop_;
  Executor threads_;  // ends before all that its tasks use
  std::unique_ptr<Listener> listener_;
};

}  // namespace

Result<std::unique_ptr<WebServer>> WebServer::Start(WebServerOptions options) {
  auto server = std::make_unique<HttpServer>(std::move(options));
  MILLRACE_RETURN_IF_ERROR(server->Begin());
  return std::unique_ptr<WebServer>(std::move(server));
}

}  // namespace millrace
