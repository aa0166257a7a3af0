// One process at a time: an exclusive lock on a file of a folder, which ends with the process.
#pragma once

#include <filesystem>
#include <utility>

#include "common/base/result.h"

namespace millrace {

class FolderLock {
 public:
  /// FailedPrecondition naming the process that holds `folder`.
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
