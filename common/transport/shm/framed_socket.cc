#include "common/transport/shm/framed_socket.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

namespace millrace {
namespace {

constexpr std::size_t kReadBytes = 64 << 10;
/// Reads in one call of Receive at most, so that others get their turn.
constexpr int kMaxReads = 16;

std::span<const std::byte> BytesAt(const void* data, std::size_t size) {
  return {static_cast<const std::byte*>(data), size};
}

}  // namespace

FramedSocket::FramedSocket(int socket, Files files) : socket_(socket), files_taken_(files) {
  fcntl(socket_, F_SETFL, fcntl(socket_, F_GETFL) | O_NONBLOCK);
}

FramedSocket::~FramedSocket() {
  for (const int file : files_) close(file);
  close(socket_);
}

void FramedSocket::Send(std::uint32_t type, std::string_view head, std::span<const std::byte> body,
                        int file) {
  const Header header{static_cast<std::uint32_t>(head.size() + body.size()), type};
  const std::array<std::span<const std::byte>, 3> pieces = {
      BytesAt(&header, sizeof header), BytesAt(head.data(), head.size()), body};
  MutexLock lock(mutex_);
  FlushLocked();
  if (broken_) return;
  std::size_t sent = outgoing_.empty() ? Write(pieces, file) : 0;
  if (sent > 0) file = -1;
  Outgoing rest;
  for (const auto& piece : pieces) {
    const std::size_t skip = std::min(sent, piece.size());
    sent -= skip;
    rest.bytes.append(reinterpret_cast<const char*>(piece.data()) + skip, piece.size() - skip);
  }
  if (rest.bytes.empty() || broken_) return;
  rest.file = file;
  outgoing_.push_back(std::move(rest));
}

std::size_t FramedSocket::Write(std::span<const std::span<const std::byte>> pieces, int file) {
  std::array<iovec, 3> buffers{};
  msghdr message{};
  message.msg_iov = buffers.data();
  for (const auto& piece : pieces) {
    buffers[message.msg_iovlen++] = {const_cast<std::byte*>(piece.data()), piece.size()};
  }
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  if (file >= 0) {
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    cmsghdr* const rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(rights), &file, sizeof file);
  }
  const ssize_t sent = sendmsg(socket_, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent >= 0) return static_cast<std::size_t>(sent);
  if (errno == EAGAIN || errno == EINTR || errno == ENOBUFS || errno == ENOMEM) return 0;
  broken_ = true;
  // One possible reason is too many files in flight. The other end is still there; this tells it
  // not to wait for more.
  if (file >= 0) shutdown(socket_, SHUT_WR);
  return 0;
}

bool FramedSocket::pending() const {
  MutexLock lock(mutex_);
  return !outgoing_.empty() && !broken_;
}

void FramedSocket::StopSending() {
  MutexLock lock(mutex_);
  broken_ = true;
  outgoing_.clear();
}

void FramedSocket::Flush() {
  MutexLock lock(mutex_);
  FlushLocked();
}

void FramedSocket::FlushLocked() {
  while (!outgoing_.empty() && !broken_) {
    Outgoing& out = outgoing_.front();
    const std::array<std::span<const std::byte>, 1> pieces = {
        BytesAt(out.bytes.data(), out.bytes.size())};
    const std::size_t sent = Write(pieces, out.file);
    if (sent == 0) return;
    out.file = -1;
    out.bytes.erase(0, sent);
    if (!out.bytes.empty()) return;
    outgoing_.pop_front();
  }
}

Status FramedSocket::Receive(const std::function<Status(const Frame&)>& on_frame) {
  for (int reads = 0; reads < kMaxReads; ++reads) {
    if (incoming_.size() - end_ < kReadBytes) {
      if (begin_ > 0) {
        std::memmove(incoming_.data(), incoming_.data() + begin_, end_ - begin_);
        end_ -= std::exchange(begin_, 0);
      }
      if (incoming_.size() - end_ < kReadBytes) incoming_.resize(2 * incoming_.size() + kReadBytes);
    }
    const std::size_t asked = incoming_.size() - end_;
    iovec piece{incoming_.data() + end_, asked};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(kMaxFiles * sizeof(int))> control{};
    msghdr message{};
    message.msg_iov = &piece;
    message.msg_iovlen = 1;
    if (files_taken_ == Files::kTaken) {
      message.msg_control = control.data();
      message.msg_controllen = control.size();
    }
    const ssize_t got = recvmsg(socket_, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return OkStatus();
    if (got <= 0) return Unavailable("the other end of the socket is gone");
    for (cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(&message, c)) {
      if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
      for (std::size_t at = 0; at + sizeof(int) <= c->cmsg_len - CMSG_LEN(0); at += sizeof(int)) {
        int file = -1;
        std::memcpy(&file, CMSG_DATA(c) + at, sizeof file);
        files_.push_back(file);
      }
    }
    if (files_.size() > kMaxFiles) {
      return InvalidArgument("more than " + std::to_string(kMaxFiles) + " files beside no frame");
    }
    end_ += static_cast<std::size_t>(got);
    while (end_ - begin_ >= sizeof(Header)) {
      Header header{};
      std::memcpy(&header, incoming_.data() + begin_, sizeof header);
      if (header.bytes > kMaxFrameBytes) {
        return InvalidArgument("a frame of " + std::to_string(header.bytes) +
                               " bytes: expected at most " + std::to_string(kMaxFrameBytes));
      }
      if (end_ - begin_ - sizeof header < header.bytes) break;
      const Frame frame{header.type, {incoming_.data() + begin_ + sizeof header, header.bytes}};
      begin_ += sizeof header + header.bytes;
      if (Status status = on_frame(frame); !status.ok()) return status;
    }
    if (static_cast<std::size_t>(got) < asked) return OkStatus();
  }
  return OkStatus();
}

int FramedSocket::TakeFile() {
  if (files_.empty()) return -1;
  const int file = files_.front();
  files_.pop_front();
  return file;
}

Doorbell::Doorbell() : file_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}
Doorbell::~Doorbell() { close(file_); }

void Doorbell::Ring() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(file_, &one, sizeof one);
}

void Doorbell::Clear() {
  std::uint64_t count = 0;
  [[maybe_unused]] const ssize_t got = read(file_, &count, sizeof count);
}

}  // namespace millrace
