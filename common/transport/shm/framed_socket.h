// Frames over a Unix stream socket: a type, a payload, and now and then an open file beside it.
//
// Thread-safe, but for Receive, which is for one thread. Nothing blocks: what the socket does not
// take at once is kept, and sent by Flush when it can be written again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/system/mutex.h"

namespace millrace {

class FramedSocket {
 public:
  /// Larger frames are refused.
  static constexpr std::size_t kMaxFrameBytes = 16 << 20;
  /// Open files that came and were not taken: more are an error.
  static constexpr std::size_t kMaxFiles = 16;

  enum class Files { kRefused, kTaken };

  /// Takes the socket over and makes it non-blocking. Where files are refused the system closes
  /// those that come.
  explicit FramedSocket(int socket, Files files = Files::kTaken);
  ~FramedSocket();
  FramedSocket(const FramedSocket&) = delete;
  FramedSocket& operator=(const FramedSocket&) = delete;

  int socket() const { return socket_; }

  /// Sends a frame of `head` and `body`, with `file` (-1: none) beside it, which stays the caller's
  /// and stays open as long as this socket. Where the other end is gone nothing happens: Receive
  /// says so.
  void Send(std::uint32_t type, std::string_view head, std::span<const std::byte> body = {},
            int file = -1);
  /// Whether something waits for Flush.
  bool pending() const;
  void Flush();
  /// Drops what waits for Flush, and all that is sent from now on: the other end reads no more.
  void StopSending();

  struct Frame {
    std::uint32_t type = 0;
    std::span<const std::byte> payload;  // until the next call
  };
  /// Takes what has come, up to a bound, and calls `on_frame` for every frame that is whole; where
  /// that is not ok it ends with it. Ok while there may be more; Unavailable when the other end is
  /// gone; InvalidArgument for a frame that is too large, or too many files.
  Status Receive(const std::function<Status(const Frame&)>& on_frame);
  /// The open file that came first and was not taken; -1 where there is none. The caller's now.
  int TakeFile();

 private:
  struct Header {
    std::uint32_t bytes;
    std::uint32_t type;
  };
  struct Outgoing {
    std::string bytes;  // not sent yet
    int file = -1;      // to be sent with the first of them
  };

  void FlushLocked() MILLRACE_REQUIRES(mutex_);
  /// Sends as much as the socket takes; how much that was.
  std::size_t Write(std::span<const std::span<const std::byte>> parts, int file)
      MILLRACE_REQUIRES(mutex_);

  const int socket_;
  const Files files_taken_;
  mutable Mutex mutex_;
  std::deque<Outgoing> outgoing_ MILLRACE_GUARDED_BY(mutex_);
  bool broken_ MILLRACE_GUARDED_BY(mutex_) = false;

  // The receiving thread's.
  std::vector<std::byte> incoming_;
  std::size_t begin_ = 0;  // of what was not handed out
  std::size_t end_ = 0;
  std::deque<int> files_;
};

/// Wakes a thread that polls: an eventfd.
class Doorbell {
 public:
  Doorbell();
  ~Doorbell();
  Doorbell(const Doorbell&) = delete;
  Doorbell& operator=(const Doorbell&) = delete;
  int file() const { return file_; }
  void Ring();
  void Clear();

 private:
  const int file_;
};

}  // namespace millrace
