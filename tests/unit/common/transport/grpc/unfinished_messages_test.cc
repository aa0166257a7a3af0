#include "common/transport/grpc/unfinished_messages.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>
#include <catch2/catch.hpp>

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <vector>

#include "common/transport/grpc/grpc_client.h"
#include "common/transport/grpc/grpc_server.h"
#include "common/transport/grpc/listen_check.h"
#include "common/transport/grpc/listener.h"
#include "common/transport/grpc/peer_name.h"
#include "tests/unit/common/transport/recorder.h"

namespace millrace {
namespace {

constexpr std::size_t kKiB = 1024;

/// Both ends of TCP connections over loopback.
class Connections {
 public:
  Connections() : listener_(socket(AF_INET, SOCK_STREAM, 0)) {
    at_.sin_family = AF_INET;
    at_.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof at_;
    REQUIRE(bind(listener_, At(), size) == 0);
    REQUIRE(listen(listener_, 16) == 0);
    REQUIRE(getsockname(listener_, At(), &size) == 0);
  }
  ~Connections() {
    for (const int fd : all_) close(fd);
    close(listener_);
  }

  struct Pair {
    int peer;
    int server;
  };
  Pair Open() {
    const int peer = socket(AF_INET, SOCK_STREAM, 0);
    REQUIRE(connect(peer, At(), sizeof at_) == 0);
    const int server = accept(listener_, nullptr, nullptr);
    REQUIRE(server >= 0);
    all_.push_back(peer);
    all_.push_back(server);
    return {peer, server};
  }
  void Close(int fd) {
    close(fd);
    std::erase(all_, fd);
  }

 private:
  sockaddr* At() { return reinterpret_cast<sockaddr*>(&at_); }
  int listener_;
  sockaddr_in at_{};
  std::vector<int> all_;
};

/// Sends bytes, and reads them at the other end, as gRPC does.
void Send(const Connections::Pair& over, std::size_t bytes) {
  std::vector<char> data(16 * kKiB);
  for (; bytes > 0; bytes -= std::min(bytes, data.size())) {
    const std::size_t size = std::min(bytes, data.size());
    REQUIRE(send(over.peer, data.data(), size, MSG_NOSIGNAL) == static_cast<ssize_t>(size));
    REQUIRE(recv(over.server, data.data(), size, MSG_WAITALL) == static_cast<ssize_t>(size));
  }
}

bool IsOpen(const Connections::Pair& pair) {
  char byte = 0;
  return recv(pair.peer, &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

UnfinishedMessagesOptions Bounds(std::size_t most) {
  return {
      .most = most, .most_of_connection = 0, .memory = nullptr, .on_ended = [](const std::string&) {
      }};
}

TEST_CASE("connections with most of unfinished messages end, and no others",
          "[unfinished][security]") {
  Connections connections;
  UnfinishedMessages unfinished(Bounds(1000 * kKiB));
  const auto honest = connections.Open();
  const auto small = connections.Open();
  const auto large = connections.Open();
  const auto larger = connections.Open();
  for (const auto& one : {honest, small, large, larger}) unfinished.Watch(one.server);
  const auto count = unfinished.CountOf(PeerName(honest.server));
  for (int i = 0; i < 20; ++i) {
    Send(honest, 200 * kKiB);
    count->Add(200 * kKiB);
  }
  Send(small, 100 * kKiB);
  Send(large, 350 * kKiB);
  Send(larger, 450 * kKiB);
  CHECK(unfinished.Enforce().empty());  // 900 KiB
  Send(larger, 200 * kKiB);
  CHECK(unfinished.Enforce() == std::vector{PeerName(larger.server)});  // 450 KiB are left
  CHECK_FALSE(IsOpen(larger));
  CHECK(IsOpen(honest));
  CHECK(IsOpen(small));
  CHECK(IsOpen(large));
}

TEST_CASE("what belongs to closed connections is counted for nobody", "[unfinished][security]") {
  Connections connections;
  UnfinishedMessages unfinished(Bounds(100 * kKiB));
  const auto first = connections.Open();
  unfinished.Watch(first.server);
  Send(first, 90 * kKiB);
  connections.Close(first.server);
  // The system gives the same number again.
  const auto second = connections.Open();
  unfinished.Watch(second.server);
  Send(second, 90 * kKiB);
  CHECK(unfinished.Enforce().empty());
  CHECK(IsOpen(second));
  // One that was closed, and whose number is another file's now that nobody watches.
  connections.Close(second.server);
  const auto third = connections.Open();
  Send(third, 200 * kKiB);
  CHECK(unfinished.Enforce().empty());
  CHECK(IsOpen(third));
}

TEST_CASE("windows that a peer gives for what it gets are no messages", "[unfinished]") {
  Connections connections;
  UnfinishedMessages unfinished(Bounds(kKiB));
  const auto reader = connections.Open();
  unfinished.Watch(reader.server);
  Send({.peer = reader.server, .server = reader.peer}, 1024 * kKiB);
  Send(reader, 4 * kKiB);
  CHECK(unfinished.Enforce().empty());
  Send(reader, 2 * kKiB);
  CHECK(unfinished.Enforce().size() == 1);
}

TEST_CASE("each connection adds to what all may have sent", "[unfinished]") {
  Connections connections;
  UnfinishedMessagesOptions options = Bounds(10 * kKiB);
  options.most_of_connection = 50 * kKiB;
  UnfinishedMessages unfinished(options);
  const auto one = connections.Open();
  const auto other = connections.Open();
  unfinished.Watch(one.server);
  Send(one, 100 * kKiB);
  unfinished.Watch(other.server);
  CHECK(unfinished.Enforce().empty());
  connections.Close(other.server);
  CHECK(unfinished.Enforce().size() == 1);
}

TEST_CASE("connections are looked at again and again", "[unfinished]") {
  Connections connections;
  Mutex mutex;
  CondVar changed;
  std::vector<std::string> ended;
  UnfinishedMessagesOptions options = Bounds(10 * kKiB);
  options.memory = OwnAnonymousMemory;
  options.on_ended = [&](const std::string& peer) {
    MutexLock lock(mutex);
    ended.push_back(peer);
    changed.NotifyAll();
  };
  UnfinishedMessages unfinished(options);
  const auto one = connections.Open();
  Send(one, 100 * kKiB);
  unfinished.Watch(one.server);
  MutexLock lock(mutex);
  while (ended.empty()) REQUIRE(changed.WaitFor(mutex, test::kPatience));
  CHECK(ended.front() == PeerName(one.server));
}

/// Answers the end of a job with the name of the peer, as an error.
struct NamesPeers final : test::TestDispatcher {
  Result<v1::EndJobResponse> OnEndJob(const v1::EndJobRequest&, const Peer& peer) override {
    return NotFound(peer.address);
  }
};

TEST_CASE("peers have the names that gRPC gives them", "[unfinished]") {
  const bool v6 = GENERATE(false, true);
  const std::string host = v6 ? "[::1]" : "127.0.0.1";
  if (!CheckListen(host + ":0").ok()) {
    WARN("skipped: this machine has no IPv6");
    return;
  }
  const auto server = GrpcServer::Start(
      {host + ":0"}, std::shared_ptr<DispatcherEndpoint>(std::make_shared<NamesPeers>()));
  REQUIRE(server.ok());
  const std::string named =
      MakeGrpcConnector({})
          ->EndJob(host + ":" + std::to_string((*server)->port()), v1::EndJobRequest(), 60)
          .status()
          .message();
  Mutex mutex;
  CondVar changed;
  std::string name;
  auto listener = Listener::Start({.listen = host + ":0",
                                   .on_connection = nullptr,
                                   .on_refused = [&](RefusedConnection, const std::string& peer) {
                                     MutexLock lock(mutex);
                                     name = peer;
                                     changed.NotifyAll();
                                   }});
  REQUIRE(listener.ok());
  // A listener tells the name of a peer that says nothing of HTTP/2.
  const int family = v6 ? AF_INET6 : AF_INET;
  const int peer = socket(family, SOCK_STREAM, 0);
  sockaddr_in6 at{};
  at.sin6_family = static_cast<sa_family_t>(family);
  at.sin6_port = htons(static_cast<std::uint16_t>((*listener)->port()));
  at.sin6_addr = IN6ADDR_LOOPBACK_INIT;
  if (!v6) reinterpret_cast<sockaddr_in&>(at).sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  REQUIRE(connect(peer, reinterpret_cast<sockaddr*>(&at), v6 ? sizeof at : sizeof(sockaddr_in)) ==
          0);
  REQUIRE(send(peer, "nothing", 7, MSG_NOSIGNAL) == 7);
  MutexLock lock(mutex);
  while (name.empty()) REQUIRE(changed.WaitFor(mutex, test::kPatience));
  CHECK_THAT(named.substr(0, named.rfind(':')),
             Catch::Matchers::EndsWith(" " + name.substr(0, name.rfind(':'))));
  close(peer);
}

}  // namespace
}  // namespace millrace
