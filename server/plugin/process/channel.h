// Messages between the daemon and a process of a plugin, over a socket: a length of 4 bytes and
// JSON. Open files may be sent with them.
//
// Thread-compatible: one thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "common/base/result.h"
#include "server/files/file_io.h"

namespace millrace {

/// The reasons for which a wait may end early.
struct ChannelWait {
  int process = -1;  // a pidfd; its end is Unavailable
  int stop = -1;     // if it becomes readable: Cancelled
  /// Called some twenty times a second. An error ends the wait and is its result.
  std::function<Status()> on_tick = nullptr;
};

class Channel {
 public:
  static constexpr std::size_t kMaxMessageBytes = std::size_t{64} << 20;

  explicit Channel(FileDescriptor socket);

  /// Sends a message. Unavailable if the other end is gone, Cancelled, or the tick's error.
  Status Send(std::string_view text, std::span<const int> files, const ChannelWait& wait);
  /// The next message; errors of Send, and Internal for a message that is too long.
  Result<std::string> Receive(const ChannelWait& wait);

  /// Two connected sockets: this end, and the end of the process.
  struct Pair {
    FileDescriptor here;
    FileDescriptor there;
  };
  static Result<Pair> MakePair();

 private:
  Status Wait(short events, const ChannelWait& wait);
  /// Reads the arrived bytes. False if there are no bytes; Unavailable if the other end is gone.
  Result<bool> ReadSome();

  FileDescriptor socket_;
  std::string received_;
};

/// Becomes readable when it is rung; for ChannelWait::stop.
class StopBell {
 public:
  StopBell();
  int file() const { return file_.get(); }
  void Ring() const;

 private:
  FileDescriptor file_;
};

}  // namespace millrace
