#include "server/state/sqlite/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "common/system/errno_status.h"

namespace millrace {

Result<FolderLock> FolderLock::Take(const std::filesystem::path& folder) {
  const std::string path = folder / "lock";
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) {
    return ErrnoStatus("state folder " + folder.string() + ": cannot open its lock file", errno);
  }
  FolderLock lock(fd);
  if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    char holder[32] = "";
    const ssize_t n = pread(fd, holder, sizeof holder - 1, 0);
    const std::string pid(holder, n > 0 ? static_cast<std::size_t>(n) : 0);
    return FailedPrecondition("state folder " + folder.string() + " is in use by process " +
                              (pid.empty() ? "(unknown)" : pid) +
                              ": stop it, or give this daemon another folder by --state");
  }
  const std::string pid = std::to_string(getpid());
  if (ftruncate(fd, 0) != 0 || pwrite(fd, pid.data(), pid.size(), 0) < 0) {
    return ErrnoStatus("state folder " + folder.string() + ": cannot write its lock file", errno);
  }
  return lock;
}

FolderLock::~FolderLock() {
  if (fd_ >= 0) close(fd_);
}

}  // namespace millrace
