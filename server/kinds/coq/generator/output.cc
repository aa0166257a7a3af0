#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include <capnp/serialize.h>
#include <fmt/core.h>
#include <kj/io.h>

#include "common/system/errno_status.h"
#include "server/kinds/coq/generator/message.h"

namespace millrace::generator {
namespace {

Status WriteError(int error, std::string_view what, const std::filesystem::path& file) {
  const Status status = ErrnoStatus(fmt::format("cannot {} {}", what, file.string()), error);
  if (status.code() != StatusCode::kResourceExhausted) return status;
  return ResourceExhausted(status.message() + "; free some space or ask for fewer nodes");
}

// An output stream to a file descriptor. It keeps the first error instead of throwing it.
class FileStream : public kj::OutputStream {
 public:
  explicit FileStream(int descriptor) : descriptor_(descriptor) {}

  void write(const void* buffer, std::size_t size) override {
    const char* bytes = static_cast<const char*>(buffer);
    while (size > 0 && error_ == 0) {
      const ssize_t written = ::write(descriptor_, bytes, size);
      if (written < 0) {
        if (errno != EINTR) error_ = errno;
        continue;
      }
      bytes += written;
      size -= static_cast<std::size_t>(written);
      written_ += static_cast<std::uint64_t>(written);
    }
  }

  int error() const { return error_; }
  std::uint64_t written() const { return written_; }

 private:
  const int descriptor_;
  int error_ = 0;
  std::uint64_t written_ = 0;
};

}  // namespace

Result<std::uint64_t> WriteMessage(capnp::MessageBuilder& message,
                                   const std::filesystem::path& file) {
  const int descriptor = ::open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (descriptor < 0) return WriteError(errno, "create", file);
  FileStream stream(descriptor);
  capnp::writeMessage(stream, message);
  int error = stream.error();
  if (::close(descriptor) != 0 && error == 0) error = errno;
  if (error == 0) return stream.written();
  ::unlink(file.c_str());
  return WriteError(error, "write", file);
}

}  // namespace millrace::generator
