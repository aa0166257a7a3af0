// Simulates distance. The proxy passes TCP connections on; the bytes of each direction arrive a
// fixed time later, at the rate at which they came. For tests and for measurements of what a round
// trip costs.
//
//   delay_proxy --to HOST:PORT | --to-file FILE  --delay-ms 20 --port-file FILE
//
// It has one thread. The number of bytes under way in all connections is bounded. At the bound the
// sender waits, as if a pipe were full.

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <fstream>
#include <list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/command_line/command_line.h"

namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t kBlockBytes = 256 << 10;

/// A block of bytes under way. It owns its memory until the pool takes that back.
struct Block {
  std::unique_ptr<char[]> bytes;
  std::size_t size = 0;
  std::size_t sent = 0;
  Clock::time_point due;
};

/// Recycles blocks; gives out at most `limit_bytes` of them at a time.
class BlockPool {
 public:
  explicit BlockPool(std::size_t limit_bytes) : left_(limit_bytes / kBlockBytes) {}
  bool empty() const { return left_ == 0; }
  /// REQUIRES: !empty().
  std::unique_ptr<char[]> Take() {
    --left_;
    if (free_.empty()) return std::unique_ptr<char[]>(new char[kBlockBytes]);
    auto block = std::move(free_.back());
    free_.pop_back();
    return block;
  }
  void Give(std::unique_ptr<char[]> block) {
    ++left_;
    free_.push_back(std::move(block));
  }

 private:
  std::size_t left_;
  std::vector<std::unique_ptr<char[]>> free_;
};

/// One direction of a connection. Does not own its sockets.
class Pipe {
 public:
  Pipe(int from, int to, Clock::duration delay, BlockPool& pool)
      : from_(from), to_(to), delay_(delay), pool_(pool) {}
  ~Pipe() {
    for (Block& block : blocks_) pool_.Give(std::move(block.bytes));
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;

  bool reads() const { return !ended_ && !pool_.empty(); }
  /// Whether bytes, or the end of the stream, are due by `now`.
  bool writes(Clock::time_point now) const { return !shut_ && due() <= now; }
  Clock::time_point due() const {
    if (!blocks_.empty()) return blocks_.front().due;
    return ended_ && !shut_ ? end_due_ : Clock::time_point::max();
  }
  bool done() const { return shut_; }

  /// Returns false if the connection is broken.
  bool Read(Clock::time_point now) {
    while (reads()) {
      Block block{pool_.Take(), 0, 0, now + delay_};
      const ssize_t got = recv(from_, block.bytes.get(), kBlockBytes, MSG_DONTWAIT);
      if (got <= 0) {
        const int error = errno;
        pool_.Give(std::move(block.bytes));
        if (got == 0) {
          ended_ = true;
          end_due_ = now + delay_;
        }
        return got == 0 || error == EAGAIN || error == EINTR;
      }
      block.size = static_cast<std::size_t>(got);
      blocks_.push_back(std::move(block));
      if (static_cast<std::size_t>(got) < kBlockBytes) break;
    }
    return true;
  }

  bool Write(Clock::time_point now) {
    while (!blocks_.empty() && blocks_.front().due <= now) {
      Block& block = blocks_.front();
      const ssize_t put = send(to_, block.bytes.get() + block.sent, block.size - block.sent,
                               MSG_DONTWAIT | MSG_NOSIGNAL);
      if (put < 0) return errno == EAGAIN || errno == EINTR;
      block.sent += static_cast<std::size_t>(put);
      if (block.sent < block.size) return true;
      pool_.Give(std::move(block.bytes));
      blocks_.pop_front();
    }
    if (ended_ && !shut_ && blocks_.empty() && end_due_ <= now) {
      shut_ = true;
      shutdown(to_, SHUT_WR);
    }
    return true;
  }

 private:
  const int from_;
  const int to_;
  const Clock::duration delay_;
  BlockPool& pool_;
  std::deque<Block> blocks_;
  bool ended_ = false;
  bool shut_ = false;
  Clock::time_point end_due_;
};

/// A client's connection, and the proxy's own connection to the server. Owns both sockets.
struct Connection {
  Connection(int a, int b, Clock::duration delay, BlockPool& pool)
      : client(a), server(b), up(a, b, delay, pool), down(b, a, delay, pool) {}
  ~Connection() {
    close(client);
    close(server);
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  const int client;
  const int server;
  Pipe up;
  Pipe down;
};

void SetNoDelay(int fd) {
  const int one = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
}

/// Connects to `address`; returns -1 if that fails.
int Dial(const std::string& address) {
  const std::size_t colon = address.rfind(':');
  if (colon == std::string::npos) return -1;
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(address.substr(0, colon).c_str(), address.substr(colon + 1).c_str(), &hints,
                  &found) != 0) {
    return -1;
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, freeaddrinfo);
  const int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd >= 0 && connect(fd, found->ai_addr, found->ai_addrlen) == 0) return fd;
  if (fd >= 0) close(fd);
  return -1;
}

struct Options {
  std::string to;
  std::string to_file;
  std::string port_file;
  double delay_ms = 20;
  std::size_t limit_mib = 256;
};

class Proxy {
 public:
  explicit Proxy(const Options& options)
      : options_(options),
        delay_(std::chrono::microseconds(static_cast<std::int64_t>(options.delay_ms * 1e3))),
        pool_(options.limit_mib << 20) {}

  /// Listens on a free port of the loopback interface and writes its address to the port file.
  bool Listen() {
    listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    sockaddr_in where{};
    where.sin_family = AF_INET;
    where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof where;
    if (bind(listener_, reinterpret_cast<sockaddr*>(&where), sizeof where) != 0 ||
        listen(listener_, 128) != 0 ||
        getsockname(listener_, reinterpret_cast<sockaddr*>(&where), &length) != 0) {
      std::perror("delay_proxy: listen");
      return false;
    }
    const std::string unfinished = options_.port_file + ".new";
    std::ofstream(unfinished) << "127.0.0.1:" << ntohs(where.sin_port) << "\n";
    return std::rename(unfinished.c_str(), options_.port_file.c_str()) == 0;
  }

  [[noreturn]] void Run() {
    std::vector<pollfd> waits;
    for (;;) {
      Clock::time_point now = Clock::now();
      Clock::time_point due = Clock::time_point::max();
      waits.assign(1, {listener_, POLLIN, 0});
      for (const Connection& c : connections_) {
        const auto events = [&](const Pipe& in, const Pipe& out) {
          return static_cast<short>((in.reads() ? POLLIN : 0) | (out.writes(now) ? POLLOUT : 0));
        };
        waits.push_back({c.client, events(c.up, c.down), 0});
        waits.push_back({c.server, events(c.down, c.up), 0});
        for (const Pipe* pipe : {&c.up, &c.down}) {
          if (!pipe->writes(now)) due = std::min(due, pipe->due());
        }
      }
      timespec timeout{};
      if (due != Clock::time_point::max()) {
        const auto left = std::chrono::duration_cast<std::chrono::nanoseconds>(due - now).count();
        timeout = {static_cast<time_t>(left / 1'000'000'000),
                   static_cast<long>(left % 1'000'000'000)};
      }
      ppoll(waits.data(), waits.size(), due == Clock::time_point::max() ? nullptr : &timeout,
            nullptr);
      now = Clock::now();
      std::size_t at = 1;
      for (auto it = connections_.begin(); it != connections_.end(); at += 2) {
        it = Serve(*it, waits[at].revents, waits[at + 1].revents, now) ? std::next(it)
                                                                       : connections_.erase(it);
      }
      if (waits[0].revents != 0) Accept();
    }
  }

 private:
  /// Returns false if the connection is over.
  static bool Serve(Connection& c, short client, short server, Clock::time_point now) {
    constexpr short kIn = POLLIN | POLLHUP | POLLERR;
    if ((client & kIn) != 0 && c.up.reads() && !c.up.Read(now)) return false;
    if ((server & kIn) != 0 && c.down.reads() && !c.down.Read(now)) return false;
    if (!c.up.Write(now) || !c.down.Write(now)) return false;
    const bool broken = ((client | server) & POLLERR) != 0;
    return !broken && !(c.up.done() && c.down.done());
  }

  void Accept() {
    const int client = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (client < 0) return;
    std::string to = options_.to;
    if (to.empty()) std::ifstream(options_.to_file) >> to;
    const int server = Dial(to);
    if (server < 0) {
      std::fprintf(stderr, "delay_proxy: no connection to '%s'\n", to.c_str());
      close(client);
      return;
    }
    SetNoDelay(client);
    SetNoDelay(server);
    connections_.emplace_back(client, server, delay_, pool_);
  }

  const Options options_;
  const Clock::duration delay_;
  BlockPool pool_;
  int listener_ = -1;
  std::list<Connection> connections_;
};

}  // namespace

int main(int argc, char** argv) {
  Options options;
  millrace::CommandLine app("Passes TCP connections on, with their bytes a fixed time later",
                            argv[0]);
  app.AddOption("--to-file", &options.to_file, "file with the target, read for each connection");
  app.AddOption("--to", &options.to, "the target, HOST:PORT").Excludes("--to-file");
  app.AddOption("--delay-ms", &options.delay_ms, "milliseconds each way").Between(0.0, 10'000.0);
  app.AddOption("--limit-mib", &options.limit_mib, "MiB under way at most").Between(1, 65536);
  app.AddOption("--port-file", &options.port_file, "file for its own address").Required();
  if (const std::optional<int> code = app.Parse(argc, argv)) return *code;
  if (options.to.empty() && options.to_file.empty()) {
    std::fprintf(stderr, "delay_proxy: give --to or --to-file\n");
    return 2;
  }
  std::signal(SIGPIPE, SIG_IGN);
  Proxy proxy(options);
  if (!proxy.Listen()) return 1;
  proxy.Run();
}
