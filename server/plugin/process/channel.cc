#include "server/plugin/process/channel.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/system/errno_status.h"

namespace millrace {
namespace {

constexpr int kTickMilliseconds = 50;
constexpr std::size_t kMaxFiles = 4;

Status Gone() { return Unavailable("the process has ended"); }

}  // namespace

Channel::Channel(FileDescriptor socket) : socket_(std::move(socket)) {}

Result<Channel::Pair> Channel::MakePair() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return ErrnoStatus("no socket can be made for a plugin", errno);
  }
  return Pair{FileDescriptor(ends[0]), FileDescriptor(ends[1])};
}

Status Channel::Send(std::string_view text, std::span<const int> files, const ChannelWait& wait) {
  if (text.size() > kMaxMessageBytes) {
    return InvalidArgument("a message to a plugin has " + std::to_string(text.size()) + " bytes");
  }
  const auto length = static_cast<std::uint32_t>(text.size());
  std::string bytes(reinterpret_cast<const char*>(&length), sizeof length);
  bytes += text;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kMaxFiles * sizeof(int))> control{};
  std::size_t sent = 0;
  while (sent < bytes.size()) {
    iovec rest{bytes.data() + sent, bytes.size() - sent};
    msghdr message{};
    message.msg_iov = &rest;
    message.msg_iovlen = 1;
    if (sent == 0 && !files.empty()) {
      message.msg_control = control.data();
      message.msg_controllen = CMSG_SPACE(files.size_bytes());
      cmsghdr* const header = CMSG_FIRSTHDR(&message);
      header->cmsg_level = SOL_SOCKET;
      header->cmsg_type = SCM_RIGHTS;
      header->cmsg_len = CMSG_LEN(files.size_bytes());
      std::memcpy(CMSG_DATA(header), files.data(), files.size_bytes());
    }
    const ssize_t n = ::sendmsg(socket_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n >= 0) {
      sent += static_cast<std::size_t>(n);
    } else if (errno == EAGAIN) {
      MILLRACE_RETURN_IF_ERROR(Wait(POLLOUT, wait));
    } else if (errno == EPIPE || errno == ECONNRESET) {
      return Gone();
    } else if (errno != EINTR) {
      return ErrnoStatus("sending to a plugin", errno);
    }
  }
  return OkStatus();
}

Result<std::string> Channel::Receive(const ChannelWait& wait) {
  while (true) {
    std::uint32_t length = 0;
    if (received_.size() >= sizeof length) {
      std::memcpy(&length, received_.data(), sizeof length);
      if (length > kMaxMessageBytes) return Internal("a process of a plugin sends no messages");
      if (received_.size() >= sizeof length + length) {
        std::string text = received_.substr(sizeof length, length);
        received_.erase(0, sizeof length + length);
        return text;
      }
    }
    MILLRACE_ASSIGN_OR_RETURN(const bool some, ReadSome());
    if (some) continue;
    const Status waited = Wait(POLLIN, wait);
    if (waited.ok()) continue;
    // A process may answer and end right after; the answer counts.
    if (waited.code() != StatusCode::kUnavailable) return waited;
    MILLRACE_ASSIGN_OR_RETURN(const bool last, ReadSome());
    if (!last) return waited;
  }
}

Result<bool> Channel::ReadSome() {
  std::array<char, 1 << 14> buffer;
  const ssize_t n = ::recv(socket_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
  if (n > 0) received_.append(buffer.data(), static_cast<std::size_t>(n));
  if (n > 0 || (n < 0 && errno == EINTR)) return true;
  if (n == 0 || errno == ECONNRESET) return Gone();
  if (errno == EAGAIN) return false;
  return ErrnoStatus("receiving from a plugin", errno);
}

Status Channel::Wait(short events, const ChannelWait& wait) {
  while (true) {
    std::array<pollfd, 3> files{pollfd{socket_.get(), events, 0}, pollfd{wait.process, POLLIN, 0},
                                pollfd{wait.stop, POLLIN, 0}};
    const int ready = ::poll(files.data(), files.size(), kTickMilliseconds);
    if (ready < 0 && errno != EINTR) return ErrnoStatus("waiting for a plugin", errno);
    if (ready > 0 && files[0].revents != 0) return OkStatus();
    if (ready > 0 && files[1].revents != 0) return Gone();
    if (ready > 0 && files[2].revents != 0) return Cancelled("the request was cancelled");
    if (ready == 0 && wait.on_tick) MILLRACE_RETURN_IF_ERROR(wait.on_tick());
  }
}

StopBell::StopBell() : file_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

void StopBell::Ring() const {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t n = ::write(file_.get(), &one, sizeof one);
}

}  // namespace millrace
