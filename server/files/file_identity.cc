#include "server/files/file_identity.h"

#include <cerrno>
#include <fstream>
#include <iterator>
#include <string>

#include <unistd.h>

#include "common/base/hash.h"
#include "common/system/errno_status.h"

namespace millrace {
namespace {

std::int64_t Nanoseconds(const timespec& t) {
  return static_cast<std::int64_t>(t.tv_sec) * 1'000'000'000 + t.tv_nsec;
}

}  // namespace

FileIdentity FileIdentity::Of(const struct stat& status) {
  return {.size = static_cast<std::uint64_t>(status.st_size),
          .device = static_cast<std::uint64_t>(status.st_dev),
          .inode = static_cast<std::uint64_t>(status.st_ino),
          .modified_ns = Nanoseconds(status.st_mtim),
          .changed_ns = Nanoseconds(status.st_ctim)};
}

const char* FileKindName(mode_t mode) {
  if (S_ISREG(mode)) return "a regular file";
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISFIFO(mode)) return "a named pipe";
  if (S_ISSOCK(mode)) return "a socket";
  if (S_ISLNK(mode)) return "a link";
  return "a device";
}

Result<FileIdentity> IdentifyFile(const std::filesystem::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) {
    const int error = errno;
    struct stat link {};
    if (error == ENOENT && ::lstat(path.c_str(), &link) == 0 && S_ISLNK(link.st_mode)) {
      return NotFound("is a link to a file that does not exist");
    }
    return ErrnoStatus("cannot be opened", error);
  }
  if (!S_ISREG(status.st_mode)) {
    return DataLoss(std::string("is ") + FileKindName(status.st_mode) +
                    ", expected a regular file");
  }
  return FileIdentity::Of(status);
}

Digest128 HostId() {
  std::ifstream machine_id("/etc/machine-id");
  std::string id((std::istreambuf_iterator<char>(machine_id)), std::istreambuf_iterator<char>());
  if (id.empty()) {
    char name[256] = {};
    if (::gethostname(name, sizeof(name) - 1) == 0) id = name;
  }
  return Xxh3(id);
}

}  // namespace millrace
