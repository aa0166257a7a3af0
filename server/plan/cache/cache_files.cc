#include "server/plan/cache/cache_files.h"

#include <cerrno>
#include <cstdio>
#include <memory>
#include <system_error>

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/system/errno_status.h"

namespace millrace {

namespace {
struct CloseFolder {
  void operator()(DIR* folder) const { ::closedir(folder); }
};
}  // namespace

Status SystemCacheFiles::MakeFolder(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return ErrnoStatus(folder.string() + " cannot be made", error.value());
  return OkStatus();
}

Result<std::vector<CacheFiles::Found>> SystemCacheFiles::List(const std::filesystem::path& folder) {
  const std::unique_ptr<DIR, CloseFolder> open(::opendir(folder.c_str()));
  if (open == nullptr) return ErrnoStatus(folder.string() + " cannot be read", errno);
  std::vector<Found> files;
  while (true) {
    errno = 0;
    const dirent* entry = ::readdir(open.get());
    if (entry == nullptr) {
      if (errno != 0) return ErrnoStatus(folder.string() + " cannot be read", errno);
      return files;
    }
    struct stat status {};
    if (::fstatat(::dirfd(open.get()), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0 ||
        !S_ISREG(status.st_mode)) {
      continue;  // it is gone, or no file
    }
    files.push_back({entry->d_name, static_cast<std::uint64_t>(status.st_size),
                     status.st_mtim.tv_sec * kNanosecondsASecond + status.st_mtim.tv_nsec});
  }
}

Result<FileDescriptor> SystemCacheFiles::Create(const std::filesystem::path& path) {
  return OpenFile(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW);
}

Result<FileDescriptor> SystemCacheFiles::Open(const std::filesystem::path& path) {
  return OpenFile(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
}

Status SystemCacheFiles::Read(const FileDescriptor& file, std::span<std::byte> bytes,
                              std::uint64_t offset) {
  return ReadAt(file, bytes, offset);
}

Status SystemCacheFiles::Write(const FileDescriptor& file, std::span<const std::byte> bytes,
                               std::uint64_t offset) {
  return WriteAt(file, bytes, offset);
}

Status SystemCacheFiles::Rename(const std::filesystem::path& from,
                                const std::filesystem::path& to) {
  if (::rename(from.c_str(), to.c_str()) == 0) return OkStatus();
  return ErrnoStatus(from.string() + " cannot be renamed", errno);
}

Status SystemCacheFiles::Remove(const std::filesystem::path& path) {
  if (::unlink(path.c_str()) == 0) return OkStatus();
  return ErrnoStatus(path.string() + " cannot be removed", errno);
}

Status SystemCacheFiles::SetModified(const std::filesystem::path& path, std::int64_t modified_ns) {
  const timespec time = {static_cast<time_t>(modified_ns / kNanosecondsASecond),
                         static_cast<long>(modified_ns % kNanosecondsASecond)};
  const timespec times[2] = {time, time};
  if (::utimensat(AT_FDCWD, path.c_str(), times, AT_SYMLINK_NOFOLLOW) == 0) return OkStatus();
  return ErrnoStatus(path.string() + " cannot be touched", errno);
}

}  // namespace millrace
