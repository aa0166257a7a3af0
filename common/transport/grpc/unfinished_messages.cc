#include "common/transport/grpc/unfinished_messages.h"

#include <fcntl.h>
#include <linux/tcp.h>  // has more fields of tcp_info than the C library's header
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>

#include "common/transport/grpc/peer_name.h"

namespace millrace {
namespace {

/// How often the memory is looked at, and by how much it has to have grown for more. At the rate of
/// a fast network, some 20 MB come in between.
constexpr auto kPeriod = std::chrono::milliseconds(20);
constexpr std::size_t kGrowth = std::size_t{8} << 20;
/// How often all connections are looked at: at most, and after some were ended.
constexpr auto kLookPeriod = std::chrono::milliseconds(500);
constexpr auto kAlertPeriod = std::chrono::milliseconds(5);
constexpr auto kAlert = std::chrono::seconds(10);
/// So that looking takes a hundredth of the time, or a quarter of it.
constexpr int kPauseAfterLook = 100;
constexpr int kPauseAfterAlert = 4;

/// A peer sends more than messages: it gives windows for the bytes that it gets, at most a byte for
/// each 256, and it sends pings and asks for health.
constexpr std::uint64_t kBytesForWindow = 256;
constexpr std::uint64_t kOthersInSecond = 256;

/// A number that no other socket has or had. 0 if the file is no socket.
std::uint64_t CookieOf(int file) {
  std::uint64_t cookie = 0;
  socklen_t size = sizeof cookie;
  return getsockopt(file, SOL_SOCKET, SO_COOKIE, &cookie, &size) == 0 ? cookie : 0;
}

/// Ends a connection whose file another thread may close, or have closed. Its owner sees that it
/// has ended. False if that is not possible now.
bool EndConnection(std::size_t number, std::uint64_t cookie) {
  const int held = fcntl(static_cast<int>(number), F_DUPFD_CLOEXEC, 0);
  if (held < 0) return false;
  const bool ended = CookieOf(held) == cookie && shutdown(held, SHUT_RDWR) == 0;
  close(held);
  return ended;
}

}  // namespace

UnfinishedMessages::UnfinishedMessages(UnfinishedMessagesOptions options)
    : options_(std::move(options)) {
  if (options_.memory) thread_ = std::thread([this] { Run(); });
}

UnfinishedMessages::~UnfinishedMessages() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  if (thread_.joinable()) thread_.join();
}

void UnfinishedMessages::Watch(int connection) {
  Connection watched{.cookie = CookieOf(connection),
                     .peer = PeerName(connection),
                     .finished = std::make_shared<FinishedMessages>(),
                     .seen = {.at = Clock::now()}};
  const auto at = static_cast<std::size_t>(connection);
  MutexLock lock(mutex_);
  if (connections_.empty()) changed_.NotifyAll();
  if (connections_.size() <= at) connections_.resize(at + 1);
  Forget(at);
  by_peer_[watched.peer] = at;
  connections_[at] = std::move(watched);
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

bool UnfinishedMessages::Look(std::size_t number, Connection& connection) {
  const int file = static_cast<int>(number);
  tcp_info info{};
  socklen_t size = sizeof info;
  const bool known = getsockopt(file, IPPROTO_TCP, TCP_INFO, &info, &size) == 0;
  if (CookieOf(file) != connection.cookie) return false;
  if (!known) return true;
  const Seen now{.received = info.tcpi_bytes_received,
                 .acknowledged = info.tcpi_bytes_acked,
                 .finished = connection.finished->bytes(),
                 .at = Clock::now()};
  const auto milliseconds = static_cast<std::uint64_t>(
      std::chrono::ceil<std::chrono::milliseconds>(now.at - connection.seen.at).count());
  const std::uint64_t more = connection.unfinished + now.received - connection.seen.received;
  const std::uint64_t less = now.finished - connection.seen.finished +
                             (now.acknowledged - connection.seen.acknowledged) / kBytesForWindow +
                             milliseconds * kOthersInSecond / 1000;
  // Bytes that are finished beyond those that came cannot be saved for later.
  connection.unfinished = more - std::min(more, less);
  connection.seen = now;
  return true;
}

std::vector<std::string> UnfinishedMessages::Enforce() {
  struct Sender {
    std::uint64_t unfinished;
    std::size_t connection;
  };
  std::vector<Sender> senders;
  std::uint64_t all = 0;
  MutexLock lock(mutex_);
  for (std::size_t at = 0; at < connections_.size(); ++at) {
    if (connections_[at].cookie == 0) continue;
    if (!Look(at, connections_[at])) {
      Forget(at);
      continue;
    }
    senders.push_back({connections_[at].unfinished, at});
    all += senders.back().unfinished;
  }
  std::uint64_t most = std::min<std::uint64_t>(
      options_.most_of_all, options_.most + senders.size() * options_.most_of_connection);
  if (all <= most) return {};
  most /= 2;
  std::sort(senders.begin(), senders.end(),
            [](const Sender& a, const Sender& b) { return a.unfinished > b.unfinished; });
  std::vector<std::string> ended;
  for (const Sender& sender : senders) {
    if (all <= most) break;
    const Connection& connection = connections_[sender.connection];
    if (!EndConnection(sender.connection, connection.cookie)) continue;
    all -= sender.unfinished;
    ended.push_back(connection.peer);
    Forget(sender.connection);
  }
  return ended;
}

void UnfinishedMessages::Run() {
  std::size_t known = 0;
  Clock::time_point alert_until{};
  Clock::time_point look_at{};
  Clock::time_point wake_at{};
  for (;;) {
    {
      MutexLock lock(mutex_);
      while (!stopping_ && connections_.empty()) changed_.Wait(mutex_);
      for (auto now = Clock::now(); !stopping_ && now < wake_at; now = Clock::now()) {
        changed_.WaitFor(mutex_, wake_at - now);
      }
      if (stopping_) return;
    }
    const std::size_t memory = options_.memory();
    const Clock::time_point begin = Clock::now();
    wake_at = begin + kPeriod;
    if (memory < known + kGrowth && begin < look_at) {
      known = std::min(known, memory);
      continue;
    }
    known = memory;
    const std::vector<std::string> ended = Enforce();
    const Clock::time_point end = Clock::now();
    if (!ended.empty()) alert_until = end + kAlert;
    const bool alert = end < alert_until;
    look_at =
        end + (alert ? std::max<Clock::duration>(kAlertPeriod, kPauseAfterAlert * (end - begin))
                     : std::max<Clock::duration>(kLookPeriod, kPauseAfterLook * (end - begin)));
    if (alert) wake_at = look_at;
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
