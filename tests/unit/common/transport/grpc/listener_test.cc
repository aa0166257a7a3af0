#include "common/transport/grpc/listener.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>
#include <catch2/catch.hpp>

#include <map>
#include <string>
#include <vector>

#include "common/system/mutex.h"
#include "tests/unit/common/transport/recorder.h"

namespace millrace {
namespace {

constexpr std::string_view kPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

class Client {
 public:
  explicit Client(int port) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    at.sin_port = htons(static_cast<std::uint16_t>(port));
    REQUIRE(connect(fd_, reinterpret_cast<sockaddr*>(&at), sizeof at) == 0);
  }
  ~Client() {
    if (fd_ >= 0) close(fd_);
  }
  Client(Client&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

  void Say(std::string_view text) {
    REQUIRE(send(fd_, text.data(), text.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(text.size()));
  }
  /// Whether the other end closes within the time.
  bool IsClosedWithin(std::chrono::milliseconds time) {
    pollfd wait{fd_, POLLIN, 0};
    if (poll(&wait, 1, static_cast<int>(time.count())) <= 0) return false;
    char byte;
    return recv(fd_, &byte, 1, MSG_DONTWAIT) <= 0;
  }

 private:
  int fd_;
};

struct Door {
  Mutex mutex;
  CondVar changed;
  std::vector<int> served MILLRACE_GUARDED_BY(mutex);
  std::map<RefusedConnection, int> refused MILLRACE_GUARDED_BY(mutex);
  std::unique_ptr<Listener> listener;

  explicit Door(Opening opening = Opening::kHttp2,
                std::chrono::milliseconds silence = std::chrono::seconds(60)) {
    auto started = Listener::Start({.listen = "127.0.0.1:0",
                                    .opening = opening,
                                    .on_connection =
                                        [this](int connection, int) {
                                          MutexLock lock(mutex);
                                          served.push_back(connection);
                                          changed.NotifyAll();
                                        },
                                    .on_refused =
                                        [this](RefusedConnection why, const std::string&) {
                                          MutexLock lock(mutex);
                                          ++refused[why];
                                          changed.NotifyAll();
                                        },
                                    .silence = silence,
                                    .most_silent = 64});
    REQUIRE(started.ok());
    listener = *std::move(started);
  }
  ~Door() {
    listener.reset();
    MutexLock lock(mutex);
    for (const int fd : served) close(fd);
  }
  bool Serves(std::size_t count) {
    MutexLock lock(mutex);
    while (served.size() < count) {
      if (!changed.WaitFor(mutex, test::kPatience)) return false;
    }
    return true;
  }
  bool Refuses(RefusedConnection why, int count = 1) {
    MutexLock lock(mutex);
    while (refused[why] < count) {
      if (!changed.WaitFor(mutex, test::kPatience)) return false;
    }
    return true;
  }
};

TEST_CASE("a connection is handed over when it has begun to speak, with all that it said",
          "[listener]") {
  Door door;
  Client client(door.listener->port());
  client.Say(kPreface.substr(0, 10));
  CHECK_FALSE(client.IsClosedWithin(std::chrono::milliseconds(50)));
  {
    MutexLock lock(door.mutex);
    CHECK(door.served.empty());
  }
  client.Say(kPreface.substr(10));
  client.Say("more");
  REQUIRE(door.Serves(1));
  MutexLock lock(door.mutex);
  char text[64];
  CHECK(recv(door.served[0], text, kPreface.size(), MSG_WAITALL | MSG_PEEK) > 0);
}

TEST_CASE("a byte is enough for a server that looks at the rest itself", "[listener]") {
  Door door(Opening::kAnything);
  Client silent(door.listener->port());
  Client client(door.listener->port());
  client.Say("G");
  REQUIRE(door.Serves(1));
  MutexLock lock(door.mutex);
  CHECK(door.served.size() == 1);
}

TEST_CASE("a client's hello has to be there as a whole", "[listener]") {
  Door door(Opening::kTls);
  Client client(door.listener->port());
  client.Say(std::string("\x16\x03\x01\x00\x05", 5));
  client.Say("hell");
  CHECK_FALSE(client.IsClosedWithin(std::chrono::milliseconds(50)));
  client.Say("o");
  CHECK(door.Serves(1));
}

TEST_CASE("a connection that begins otherwise is closed at once", "[listener]") {
  struct Case {
    Opening opening;
    std::string says;
  };
  const auto c =
      GENERATE(Case{Opening::kHttp2, "GET / HTTP/1.1\r\n"}, Case{Opening::kHttp2, "\x16\x03\x01"},
               Case{Opening::kTls, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"},
               Case{Opening::kTls, std::string("\x16\x03\x01\xff\xff", 5)},
               Case{Opening::kTls, std::string("\x16\x03\x01\x00\x00", 5)});
  Door door(c.opening);
  Client client(door.listener->port());
  client.Say(c.says);
  CHECK(client.IsClosedWithin(test::kPatience));
  CHECK(door.Refuses(RefusedConnection::kProtocol));
}

TEST_CASE("a connection that says nothing ends after a time", "[listener]") {
  Door door(Opening::kHttp2, std::chrono::milliseconds(100));
  Client silent(door.listener->port());
  Client half(door.listener->port());
  half.Say("PRI");
  CHECK(silent.IsClosedWithin(test::kPatience));
  CHECK(half.IsClosedWithin(test::kPatience));
  CHECK(door.Refuses(RefusedConnection::kSilent, 2));
}

TEST_CASE("silent connections push out only each other", "[listener]") {
  Door door;
  std::vector<Client> silent;
  for (int i = 0; i < 100; ++i) silent.emplace_back(door.listener->port());
  CHECK(door.Refuses(RefusedConnection::kSilent, 100 - 64));
  Client honest(door.listener->port());
  honest.Say(kPreface);
  CHECK(door.Serves(1));
  CHECK(silent[0].IsClosedWithin(test::kPatience));
  CHECK_FALSE(silent[99].IsClosedWithin(std::chrono::milliseconds(10)));
}

TEST_CASE("a peer that gives up half-way is forgotten", "[listener]") {
  Door door;
  {
    Client gone(door.listener->port());
    gone.Say("PRI");
  }
  Client honest(door.listener->port());
  honest.Say(kPreface);
  CHECK(door.Serves(1));
}

TEST_CASE("connections beyond what files allow are closed at once, and others come in afterwards",
          "[listener]") {
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_NOFILE, &before) == 0);
  rlimit low = before;
  low.rlim_cur = 300;
  REQUIRE(setrlimit(RLIMIT_NOFILE, &low) == 0);
  {
    Door door;
    rlimit enough = before;  // for the clients of this process
    std::vector<Client> clients;
    REQUIRE(setrlimit(RLIMIT_NOFILE, &enough) == 0);
    for (int i = 0; i < 200; ++i) {
      clients.emplace_back(door.listener->port());
      clients.back().Say(kPreface);
    }
    CHECK(door.Refuses(RefusedConnection::kTooMany));
    clients.clear();
    {
      MutexLock lock(door.mutex);
      for (const int fd : door.served) close(fd);
      door.served.clear();
    }
    Client honest(door.listener->port());
    honest.Say(kPreface);
    CHECK(door.Serves(1));
  }
  REQUIRE(setrlimit(RLIMIT_NOFILE, &before) == 0);
}

TEST_CASE("a port that is in use is refused", "[listener]") {
  Door door;
  const auto second =
      Listener::Start({.listen = "127.0.0.1:" + std::to_string(door.listener->port()),
                       .on_connection = [](int fd, int) { close(fd); }});
  CHECK(second.status().code() == StatusCode::kAlreadyExists);
}

}  // namespace
}  // namespace millrace
