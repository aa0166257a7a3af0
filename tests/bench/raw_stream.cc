#include "tests/bench/raw_stream.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fmt/core.h>

namespace millrace::bench {
namespace {

// RFC 9113, section 6.
enum Frame : std::uint8_t {
  kData = 0,
  kHeaders = 1,
  kReset = 3,
  kSettings = 4,
  kPing = 6,
  kGoAway = 7,
  kWindowUpdate = 8
};
constexpr std::uint8_t kAck = 1;
constexpr std::uint8_t kEndHeaders = 4;
constexpr std::size_t kFrameHeader = 9;
constexpr std::size_t kMostFrame = 16'384;
constexpr std::size_t kPrefix = 5;  // gRPC's: compressed or not, and the length
/// So much that no more need be given while a benchmark runs.
constexpr std::uint32_t kReceiveWindow = 1u << 30;

std::uint32_t Number(std::string_view bytes) {
  std::uint32_t number;
  std::memcpy(&number, bytes.data(), sizeof number);
  return ntohl(number);
}

void AddNumber(std::uint32_t number, std::string& out) {
  const std::uint32_t bytes = htonl(number);
  out.append(reinterpret_cast<const char*>(&bytes), sizeof bytes);
}

void AddFrame(std::uint8_t type, std::uint8_t flags, std::uint32_t stream, std::string_view payload,
              std::string& out) {
  const auto size = static_cast<std::uint32_t>(payload.size());
  AddNumber(size << 8 | type, out);
  out += static_cast<char>(flags);
  AddNumber(stream, out);
  out += payload;
}

/// The value of a header whose name has a place in HPACK's table of at most 14.
std::string Literal(char place, std::string_view value) {
  return fmt::format("{}{}{}", place, static_cast<char>(value.size()), value);
}

std::string RequestHeaders(int port, const std::string& method) {
  std::string block = "\x83\x86";  // :method POST, :scheme http
  block += Literal('\x04', method);
  block += Literal('\x01', fmt::format("127.0.0.1:{}", port));
  block += '\x0f';
  block += Literal('\x10', "application/grpc");  // content-type: 31 = 15 + 16
  block += std::string_view("\0\x02te\x08trailers", 13);
  return block;
}

Status Failed(const char* what) {
  return Unavailable(fmt::format("{}: {}", what, std::strerror(errno)));
}

}  // namespace

RawStream::~RawStream() {
  if (fd_ >= 0) close(fd_);
}

Status RawStream::Open(int port, const std::string& method) {
  fd_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  if (fd_ < 0 || connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
    return Failed("cannot connect");
  }
  const int on = 1;
  setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  if (fcntl(fd_, F_SETFL, O_NONBLOCK) != 0) return Failed("cannot prepare the socket");

  out_ = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
  std::string settings("\0\x04", 2);  // the first window of a stream
  AddNumber(kReceiveWindow, settings);
  AddFrame(kSettings, 0, 0, settings, out_);
  std::string window;
  AddNumber(kReceiveWindow, window);
  AddFrame(kWindowUpdate, 0, 0, window, out_);
  AddFrame(kHeaders, kEndHeaders, 1, RequestHeaders(port, method), out_);
  return Flush();
}

Status RawStream::Send(std::string_view message) {
  messages_ += '\0';
  AddNumber(static_cast<std::uint32_t>(message.size()), messages_);
  messages_ += message;
  return Flush();
}

Status RawStream::Flush() {
  std::size_t framed = 0;
  while (framed < messages_.size()) {
    const std::int64_t room = std::min(connection_window_, stream_window_);
    if (room <= 0) break;
    const std::size_t size =
        std::min({messages_.size() - framed, kMostFrame, static_cast<std::size_t>(room)});
    AddFrame(kData, 0, 1, std::string_view(messages_).substr(framed, size), out_);
    connection_window_ -= static_cast<std::int64_t>(size);
    stream_window_ -= static_cast<std::int64_t>(size);
    framed += size;
  }
  messages_.erase(0, framed);
  while (!out_.empty()) {
    const ssize_t written = send(fd_, out_.data(), out_.size(), MSG_NOSIGNAL);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0 && errno == EAGAIN) break;  // the next Send or Receive goes on
    if (written < 0) return Failed("cannot send");
    out_.erase(0, static_cast<std::size_t>(written));
  }
  return OkStatus();
}

Status RawStream::Receive(const std::function<Status(std::string_view)>& on_message) {
  char buffer[32'768];
  const ssize_t got = recv(fd_, buffer, sizeof buffer, 0);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return OkStatus();
  if (got < 0) return Failed("cannot receive");
  if (got == 0) return Unavailable("the server has closed the connection");
  in_.append(buffer, static_cast<std::size_t>(got));
  std::string_view left = in_;
  while (left.size() >= kFrameHeader) {
    const std::size_t size = Number(left) >> 8;
    if (left.size() < kFrameHeader + size) break;
    const FrameHeader header{static_cast<std::uint8_t>(left[3]), static_cast<std::uint8_t>(left[4]),
                             Number(left.substr(5))};
    MILLRACE_RETURN_IF_ERROR(TakeFrame(header, left.substr(kFrameHeader, size), on_message));
    left.remove_prefix(kFrameHeader + size);
  }
  in_.erase(0, in_.size() - left.size());
  return out_.empty() && messages_.empty() ? OkStatus() : Flush();
}

Status RawStream::TakeFrame(const FrameHeader& header, std::string_view payload,
                            const std::function<Status(std::string_view)>& on_message) {
  switch (header.type) {
    case kData:
      return TakeData(payload, on_message);
    case kSettings:
      if ((header.flags & kAck) != 0) return OkStatus();
      TakeSettings(payload);
      AddFrame(kSettings, kAck, 0, {}, out_);
      return OkStatus();
    case kPing:
      if ((header.flags & kAck) == 0) AddFrame(kPing, kAck, 0, payload, out_);
      return OkStatus();
    case kWindowUpdate:
      (header.stream == 0 ? connection_window_ : stream_window_) += Number(payload);
      return OkStatus();
    case kHeaders:
      // Headers come first; with the end of the stream they are trailers.
      return (header.flags & 1) == 0 ? OkStatus() : Unavailable("the server has ended the call");
    case kReset:
    case kGoAway:
      return Unavailable(fmt::format("the server has ended the call with frame {}", header.type));
    default:
      return OkStatus();
  }
}

Status RawStream::TakeData(std::string_view payload,
                           const std::function<Status(std::string_view)>& on_message) {
  // Most frames hold whole messages, which are then not copied.
  const bool whole = message_.empty();
  if (!whole) message_ += payload;
  std::string_view left = whole ? payload : std::string_view(message_);
  while (left.size() >= kPrefix) {
    const std::size_t size = Number(left.substr(1));
    if (left.size() < kPrefix + size) break;
    MILLRACE_RETURN_IF_ERROR(on_message(left.substr(kPrefix, size)));
    left.remove_prefix(kPrefix + size);
  }
  message_ = std::string(left);
  return OkStatus();
}

void RawStream::TakeSettings(std::string_view payload) {
  for (; payload.size() >= 6; payload.remove_prefix(6)) {
    const int setting = payload[0] << 8 | payload[1];
    if (setting != 4) continue;  // the first window of a stream
    const std::int64_t window = Number(payload.substr(2));
    stream_window_ += window - first_window_;
    first_window_ = window;
  }
}

}  // namespace millrace::bench
