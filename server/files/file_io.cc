#include "server/files/file_io.h"

#include <cerrno>
#include <cstdlib>
#include <string>
#include <system_error>

#include <fcntl.h>
#include <unistd.h>

#include "common/system/errno_status.h"
#include "server/files/file_identity.h"

namespace millrace {

Result<FileDescriptor> OpenFile(const std::filesystem::path& path, int flags, Readers readers) {
  const int fd = ::open(path.c_str(), flags | O_CLOEXEC, readers == Readers::kOwner ? 0600 : 0666);
  if (fd < 0) return ErrnoStatus(path.string() + " cannot be opened", errno);
  return FileDescriptor(fd);
}

Result<FileDescriptor> ReplaceFile(const std::filesystem::path& path, Readers readers) {
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) {
    return ErrnoStatus(path.string() + " cannot be replaced", errno);
  }
  return OpenFile(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, readers);
}

Result<FileDescriptor> OpenNamelessFile(const std::filesystem::path& folder) {
  int fd = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (fd < 0) {
    // Some file systems do not support O_TMPFILE.
    std::string name = (folder / ".millrace.spool.XXXXXX").string();
    fd = ::mkostemp(name.data(), O_CLOEXEC);
    if (fd < 0) return ErrnoStatus("no file can be made in " + folder.string(), errno);
    ::unlink(name.c_str());
  }
  return FileDescriptor(fd);
}

Status WriteAt(const FileDescriptor& file, std::span<const std::byte> bytes, std::uint64_t offset) {
  while (!bytes.empty()) {
    const ssize_t n = ::pwrite(file.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoStatus("cannot be written", errno);
    bytes = bytes.subspan(static_cast<std::size_t>(n));
    offset += static_cast<std::uint64_t>(n);
  }
  return OkStatus();
}

Status ReadAt(const FileDescriptor& file, std::span<std::byte> bytes, std::uint64_t offset) {
  while (!bytes.empty()) {
    const ssize_t n = ::pread(file.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoStatus("cannot be read", errno);
    if (n == 0) return DataLoss("ends too early");
    bytes = bytes.subspan(static_cast<std::size_t>(n));
    offset += static_cast<std::uint64_t>(n);
  }
  return OkStatus();
}

Status WriteWholeFile(const std::filesystem::path& path, const std::filesystem::path& temporary,
                      std::span<const std::byte> bytes) {
  const auto write = [&]() -> Status {
    MILLRACE_ASSIGN_OR_RETURN(const FileDescriptor file, ReplaceFile(temporary));
    MILLRACE_RETURN_IF_ERROR(WriteAt(file, bytes, 0));
    return SyncFile(file);
  };
  Status status = write();
  std::error_code error;
  if (status.ok()) {
    std::filesystem::rename(temporary, path, error);
    if (!error) return SyncFolder(path.has_parent_path() ? path.parent_path() : ".");
    status = ErrnoStatus("cannot be renamed to " + path.string(), error.value());
  }
  std::filesystem::remove(temporary, error);
  return status.WithContext(temporary.string());
}

Status SyncFile(const FileDescriptor& file) {
  if (::fsync(file.get()) != 0) return ErrnoStatus("cannot be synced", errno);
  return OkStatus();
}

Status SyncFolder(const std::filesystem::path& folder) {
  MILLRACE_ASSIGN_OR_RETURN(const FileDescriptor fd, OpenFile(folder, O_RDONLY | O_DIRECTORY));
  return SyncFile(fd).WithContext(folder.string());
}

}  // namespace millrace
