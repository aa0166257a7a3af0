// Bounds what the peers of a server may have sent of messages that are not complete.
//
// gRPC 1.51 keeps a message of any length until it has come, and only then looks whether it is too
// long. If its quota is used up, it ends streams of all peers in turn, whoever has sent how much.
// Here the connections that have sent most without completing it are ended, before that happens.
// The kernel says how many bytes came on a connection, the server how many were in whole messages.
#pragma once

#include <sys/types.h>

#include <atomic>
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
    // With the frames of HTTP/2, the records of TLS, and what goes by between messages.
    bytes_ += message_bytes + message_bytes / 32 + 256;
  }
  std::uint64_t bytes() const { return bytes_; }

 private:
  std::atomic<std::uint64_t> bytes_{0};
};

struct UnfinishedMessagesOptions {
  std::size_t most = std::size_t{12} << 20;                 // bytes that all may have sent
  std::size_t most_of_connection = std::size_t{256} << 10;  // added to it for each connection
  /// The memory of this process, in bytes: while it does not grow, nothing is looked at.
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

  /// From now on the connection is watched, until it is closed by whoever owns it.
  void Watch(int connection);
  /// The count of the connection of a peer (PeerName). One that counts for nobody if the connection
  /// is not watched.
  std::shared_ptr<FinishedMessages> CountOf(const std::string& peer);
  /// If all together have sent too much, ends those with most until half of it is left. Returns
  /// their peers.
  std::vector<std::string> Enforce();

 private:
  struct Connection {
    ino_t socket = 0;  // tells it from a later file with the same number
    std::string peer;
    std::shared_ptr<FinishedMessages> finished;  // null: there is none with this number
  };
  void Run();
  void Forget(std::size_t connection) MILLRACE_REQUIRES(mutex_);

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
