#include "common/transport/grpc/unfinished_messages.h"

#include <fcntl.h>
#include <linux/tcp.h>  // has more fields of tcp_info than the C library's header
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <utility>

#include "common/transport/grpc/peer_name.h"

namespace millrace {
namespace {

/// How often the memory is looked at, and by how much it has to have grown for more. At the rate of
/// a fast network, some 20 MB come in between.
constexpr auto kPeriod = std::chrono::milliseconds(20);
constexpr std::size_t kGrowth = std::size_t{8} << 20;
/// For how long all connections are looked at again and again after some were ended, how often, and
/// how often at most if that takes long: so that it takes a quarter of the time.
constexpr auto kAlert = std::chrono::seconds(10);
constexpr auto kAlertPeriod = std::chrono::milliseconds(5);
constexpr int kMostShare = 4;

/// The inode of an open file, 0 if there is none.
ino_t InodeOf(int file) {
  struct stat is {};
  return fstat(file, &is) == 0 ? is.st_ino : 0;
}

/// How many bytes came on a TCP connection since it began.
std::uint64_t BytesReceived(int connection) {
  tcp_info info{};
  socklen_t size = sizeof info;
  if (getsockopt(connection, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return 0;
  if (size < offsetof(tcp_info, tcpi_bytes_received) + sizeof info.tcpi_bytes_received) return 0;
  return info.tcpi_bytes_received;
}

/// A file of one's own for a connection that another thread may close. -1 with EBADF if it is
/// closed, also if another one has its number now.
int Hold(std::size_t connection, ino_t socket) {
  const int held = fcntl(static_cast<int>(connection), F_DUPFD_CLOEXEC, 0);
  if (held < 0 || InodeOf(held) == socket) return held;
  close(held);
  errno = EBADF;
  return -1;
}

}  // namespace

UnfinishedMessages::UnfinishedMessages(UnfinishedMessagesOptions options)
    : options_(std::move(options)), thread_([this] { Run(); }) {}

UnfinishedMessages::~UnfinishedMessages() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  thread_.join();
}

void UnfinishedMessages::Watch(int connection) {
  Connection watched{InodeOf(connection), PeerName(connection),
                     std::make_shared<FinishedMessages>()};
  const auto at = static_cast<std::size_t>(connection);
  MutexLock lock(mutex_);
  if (connections_.size() <= at) connections_.resize(at + 1);
  Forget(at);
  by_peer_[watched.peer] = at;
  connections_[at] = std::move(watched);
  changed_.NotifyAll();
}

std::shared_ptr<FinishedMessages> UnfinishedMessages::CountOf(const std::string& peer) {
  {
    MutexLock lock(mutex_);
    if (const auto found = by_peer_.find(peer); found != by_peer_.end()) {
      return connections_[found->second].finished;
    }
  }
  return std::make_shared<FinishedMessages>();
}

void UnfinishedMessages::Forget(std::size_t connection) {
  const auto known = by_peer_.find(connections_[connection].peer);
  if (known != by_peer_.end() && known->second == connection) by_peer_.erase(known);
  connections_[connection] = {};
}

std::vector<std::string> UnfinishedMessages::Enforce() {
  struct Sender {
    std::size_t connection;
    std::uint64_t unfinished;
    bool operator<(const Sender& other) const { return unfinished > other.unfinished; }
  };
  std::vector<Sender> senders;
  std::uint64_t all = 0;
  MutexLock lock(mutex_);
  for (std::size_t at = 0; at < connections_.size(); ++at) {
    const Connection& one = connections_[at];
    if (one.finished == nullptr) continue;
    const int held = Hold(at, one.socket);
    if (held < 0) {
      if (errno == EBADF) Forget(at);
      continue;
    }
    const std::uint64_t received = BytesReceived(held);
    close(held);
    const std::uint64_t finished = one.finished->bytes();
    senders.push_back({at, received - std::min(received, finished)});
    all += senders.back().unfinished;
  }
  std::uint64_t most = options_.most + senders.size() * options_.most_of_connection;
  if (all <= most) return {};
  most /= 2;
  std::sort(senders.begin(), senders.end());
  std::vector<std::string> ended;
  for (const Sender& sender : senders) {
    if (all <= most) break;
    all -= sender.unfinished;
    const int held = Hold(sender.connection, connections_[sender.connection].socket);
    if (held < 0) continue;
    shutdown(held, SHUT_RDWR);  // its owner sees that it has ended, and closes it
    close(held);
    ended.push_back(connections_[sender.connection].peer);
  }
  return ended;
}

void UnfinishedMessages::Run() {
  using Clock = std::chrono::steady_clock;
  std::size_t known = 0;
  Clock::time_point alert_until{};
  Clock::duration pause = kPeriod;
  for (;;) {
    {
      MutexLock lock(mutex_);
      while (!stopping_ && connections_.empty()) changed_.Wait(mutex_);
      if (!stopping_) changed_.WaitFor(mutex_, pause);
      if (stopping_) return;
    }
    const std::size_t memory = options_.memory();
    const Clock::time_point begin = Clock::now();
    if (memory < known + kGrowth && begin >= alert_until) {
      known = std::min(known, memory);
      pause = kPeriod;
      continue;
    }
    known = memory;
    const std::vector<std::string> ended = Enforce();
    const Clock::time_point end = Clock::now();
    // Freed memory is used again, so that the next ones do not show in its growth.
    if (!ended.empty()) alert_until = end + kAlert;
    pause = std::max<Clock::duration>(kAlertPeriod, kMostShare * (end - begin));
    for (const std::string& peer : ended) options_.on_ended(peer);
  }
}

std::size_t OwnAnonymousMemory() {
  const int file = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  std::array<char, 128> text{};
  const ssize_t size = read(file, text.data(), text.size() - 1);
  close(file);
  std::size_t all = 0;
  std::size_t resident = 0;
  std::size_t shared = 0;
  if (size <= 0 || std::sscanf(text.data(), "%zu %zu %zu", &all, &resident, &shared) != 3) return 0;
  return (resident - std::min(resident, shared)) * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace millrace
