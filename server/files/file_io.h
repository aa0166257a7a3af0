// Whole reads and writes at a place of a file, and file descriptors that close themselves.
//
// Descriptors are for one owner; the free functions are thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <utility>

#include "common/base/result.h"

namespace millrace {

/// An open file.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept;
  ~FileDescriptor() { Close(); }

  int get() const { return fd_; }
  void Close();

 private:
  int fd_ = -1;
};

/// Opens (and with O_CREAT creates, for all to read) a file; messages name it.
Result<FileDescriptor> OpenFile(const std::filesystem::path& path, int flags);

/// A new, empty file in the place of whatever `path` names; links are not followed.
Result<FileDescriptor> ReplaceFile(const std::filesystem::path& path);

/// A new file without a name, in `folder`, gone when it is closed.
Result<FileDescriptor> OpenNamelessFile(const std::filesystem::path& folder);

/// Writes all of `bytes` from `offset`. Messages leave the file's name to the caller.
Status WriteAt(const FileDescriptor& file, std::span<const std::byte> bytes, std::uint64_t offset);

/// Fills `bytes` from `offset`; DataLoss where the file ends before.
Status ReadAt(const FileDescriptor& file, std::span<std::byte> bytes, std::uint64_t offset);

/// fsync of a file or, by its path, of a folder.
Status SyncFile(const FileDescriptor& file);
Status SyncFolder(const std::filesystem::path& folder);

}  // namespace millrace
