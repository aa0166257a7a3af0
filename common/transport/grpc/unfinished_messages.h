// Bounds the bytes of incomplete messages of the peers of a server.
//
// gRPC 1.51 keeps a message of any length until it has come, and only then checks whether it is too
// long. If its quota is used up, it ends streams of all peers in turn, regardless of their bytes.
// Here the connections with the most incomplete bytes are ended before that happens. The kernel
// knows how many bytes came on a connection, the server how many were in whole messages.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "common/system/mutex.h"

namespace millrace {

/// Counts the whole messages of one connection. Thread-safe.
class FinishedMessages {
 public:
  void Add(std::size_t message_bytes) {
    bytes_ += message_bytes + message_bytes / 32 + 128;  // with frames of HTTP/2, records of TLS
  }
  std::uint64_t bytes() const { return bytes_; }

 private:
  std::atomic<std::uint64_t> bytes_{0};
};

struct UnfinishedMessagesOptions {
  /// All may have sent `most` bytes, and `most_of_connection` more for each connection, but never
  /// more than `most_of_all`.
  std::size_t most = std::size_t{12} << 20;
  std::size_t most_of_connection = std::size_t{256} << 10;
  std::size_t most_of_all = std::size_t{96} << 20;
  /// The memory of this process, in bytes: when it grows, connections are checked more often.
  /// Unset: only Enforce checks them.
  std::function<std::size_t()> memory;
  /// Called for each connection that is ended, with its peer.
  std::function<void(const std::string& peer)> on_ended;
};

/// Thread-safe.
class UnfinishedMessages {
 public:
  explicit UnfinishedMessages(UnfinishedMessagesOptions options);
  ~UnfinishedMessages();
  UnfinishedMessages(const UnfinishedMessages&) = delete;
  UnfinishedMessages& operator=(const UnfinishedMessages&) = delete;

  /// From now on the connection is watched, until its owner closes it.
  void Watch(int connection);
  /// The count of the connection of a peer (PeerName); a detached count if the connection is not
  /// watched.
  std::shared_ptr<FinishedMessages> CountOf(const std::string& peer);
  /// If all together have sent too much, ends the connections with most until half of it is left.
  /// Returns their peers.
  std::vector<std::string> Enforce();

 private:
  using Clock = std::chrono::steady_clock;

  /// The bytes of a connection at the last check.
  struct Seen {
    std::uint64_t received = 0;
    std::uint64_t acknowledged = 0;  // by the peer, of the bytes sent to it
    std::uint64_t finished = 0;
    Clock::time_point at;
  };
  struct Connection {
    std::uint64_t cookie = 0;  // of the socket; 0: no connection with this number is watched
    std::string peer;
    std::shared_ptr<FinishedMessages> finished;
    Seen seen;
    std::uint64_t unfinished = 0;
  };

  void Run();
  void Forget(std::size_t connection) MILLRACE_REQUIRES(mutex_);
  /// Brings `unfinished` up to date. False if the connection is closed.
  static bool Look(std::size_t number, Connection& connection);

  const UnfinishedMessagesOptions options_;
  Mutex mutex_;
  CondVar changed_;
  bool stopping_ MILLRACE_GUARDED_BY(mutex_) = false;
  std::vector<Connection> connections_
      MILLRACE_GUARDED_BY(mutex_);  // by the numbers of their files
  std::unordered_map<std::string, std::size_t> by_peer_ MILLRACE_GUARDED_BY(mutex_);
  std::thread thread_;
};

/// The anonymous memory of this process, in bytes.
std::size_t OwnAnonymousMemory();

}  // namespace millrace
