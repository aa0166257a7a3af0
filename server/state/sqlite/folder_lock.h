// Lets only one process use a folder: an exclusive lock on a file there, which ends with the
// process.
#pragma once

#include <filesystem>
#include <utility>

#include "common/base/result.h"

namespace millrace {

class FolderLock {
 public:
  /// FailedPrecondition, with the process that holds `folder`.
  static Result<FolderLock> Take(const std::filesystem::path& folder);
  ~FolderLock();
  FolderLock(FolderLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FolderLock& operator=(FolderLock&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }

 private:
  explicit FolderLock(int fd) : fd_(fd) {}
  int fd_;
};

}  // namespace millrace
