#include "common/system/read_text_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "common/system/errno_status.h"

namespace millrace {

Result<std::string> ReadTextFile(const std::string& path, std::size_t most_bytes) {
  const std::string what = "cannot read " + path;
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return ErrnoStatus(what, errno);
  std::string text;
  std::array<char, 1 << 14> piece;
  for (;;) {
    const ssize_t size = read(fd, piece.data(), piece.size());
    if (size < 0 && errno == EINTR) continue;
    const int error = errno;
    if (size <= 0 || text.size() + static_cast<std::size_t>(size) > most_bytes) close(fd);
    if (size < 0) return ErrnoStatus(what, error);
    if (size == 0) return text;
    if (text.size() + static_cast<std::size_t>(size) > most_bytes) {
      return InvalidArgument(what + ": expected a file of at most " + std::to_string(most_bytes) +
                             " bytes");
    }
    text.append(piece.data(), static_cast<std::size_t>(size));
  }
}

}  // namespace millrace
