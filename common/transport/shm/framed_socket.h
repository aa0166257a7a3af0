// Frames over a Unix stream socket. A frame has a type and a payload, and an open file may be sent
// with it.
//
// Thread-safe, except Receive, which only one thread may call. Nothing blocks. If the socket does
// not accept everything at once, the rest is kept, and Flush sends it when the socket is writable
// again.
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
  /// More open files than this that have arrived and were not taken are an error.
  static constexpr std::size_t kMaxFiles = 16;

  enum class Files { kRefused, kTaken };

  /// Takes ownership of the socket and makes it non-blocking. If `files` says to refuse files, the
  /// system closes those that arrive.
  explicit FramedSocket(int socket, Files files = Files::kTaken);
  ~FramedSocket();
  FramedSocket(const FramedSocket&) = delete;
  FramedSocket& operator=(const FramedSocket&) = delete;

  int socket() const { return socket_; }

  /// Sends a frame of `head` and `body`, and the open file `file` with it (-1: no file). The file
  /// stays the caller's, and has to stay open as long as this socket. Does nothing if the other end
  /// is gone; Receive reports that.
  void Send(std::uint32_t type, std::string_view head, std::span<const std::byte> body = {},
            int file = -1);
  /// Whether some bytes wait for Flush.
  bool pending() const;
  void Flush();
  /// Drops the bytes that wait for Flush, and everything that is sent from now on. The other end
  /// reads no more.
  void StopSending();

  struct Frame {
    std::uint32_t type = 0;
    std::span<const std::byte> payload;  // valid until the next call
  };
  /// Reads what has arrived, up to a limit, and calls `on_frame` for every complete frame. If
  /// `on_frame` returns an error, Receive returns it at once. Ok if more may come. Unavailable if
  /// the other end is gone. InvalidArgument for a frame that is too large, or too many files.
  Status Receive(const std::function<Status(const Frame&)>& on_frame);
  /// Returns the open file that arrived first and was not taken yet; -1 if there is none. The
  /// caller owns it from now on.
  int TakeFile();

 private:
  struct Header {
    std::uint32_t bytes;
    std::uint32_t type;
  };
  struct Outgoing {
    std::string bytes;  // not sent yet
    int file = -1;      // to be sent with the first of these bytes
  };

  void FlushLocked() MILLRACE_REQUIRES(mutex_);
  /// Sends as many bytes as the socket accepts, and returns how many.
  std::size_t Write(std::span<const std::span<const std::byte>> pieces, int file)
      MILLRACE_REQUIRES(mutex_);

  const int socket_;
  const Files files_taken_;
  mutable Mutex mutex_;
  std::deque<Outgoing> outgoing_ MILLRACE_GUARDED_BY(mutex_);
  bool broken_ MILLRACE_GUARDED_BY(mutex_) = false;

  // Used only by the thread that receives.
  std::vector<std::byte> incoming_;
  std::size_t begin_ = 0;  // start of the bytes that were not handed out yet
  std::size_t end_ = 0;
  std::deque<int> files_;
};

/// Wakes a thread that waits in poll, by an eventfd.
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
