// One bidirectional gRPC stream on a connection of its own, at a small part of the CPU time that
// gRPC's own client takes. It is for programs that load a server with a thousand streams from one
// thread. It speaks as much HTTP/2 as that needs: no TLS, no compression, one stream.
//
// Not thread-safe. Nothing blocks but Open.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "common/base/result.h"

namespace millrace::bench {

class RawStream {
 public:
  RawStream() = default;
  ~RawStream();
  RawStream(const RawStream&) = delete;
  RawStream& operator=(const RawStream&) = delete;

  /// Connects to a port of this host and begins a call of `method` ("/package.Service/Method").
  Status Open(int port, const std::string& method);
  /// The socket, to be watched for input.
  int fd() const { return fd_; }

  /// Sends a message, or keeps it until the server or the socket takes more. Messages stay in
  /// order.
  Status Send(std::string_view message);
  /// Reads what has come, and calls `on_message` for each whole message. An error if the call or
  /// the connection has ended.
  Status Receive(const std::function<Status(std::string_view)>& on_message);

 private:
  struct FrameHeader {
    std::uint8_t type;
    std::uint8_t flags;
    std::uint32_t stream;
  };

  Status TakeFrame(const FrameHeader& header, std::string_view payload,
                   const std::function<Status(std::string_view)>& on_message);
  Status TakeData(std::string_view payload,
                  const std::function<Status(std::string_view)>& on_message);
  void TakeSettings(std::string_view payload);
  /// Frames as many of the messages that wait as the server takes, and writes.
  Status Flush();

  int fd_ = -1;
  std::string in_;        // bytes of frames that are not complete
  std::string message_;   // bytes of messages that are not complete
  std::string messages_;  // length-prefixed messages that are not framed yet
  std::string out_;       // frames that are not written yet
  std::int64_t connection_window_ = 65'535;
  std::int64_t stream_window_ = 65'535;
  std::int64_t first_window_ = 65'535;  // of the server's settings
};

}  // namespace millrace::bench
