// Keeps the blobs of scanned files in a nameless file until all files are known. So memory holds
// only the blobs that threads are working on.
//
// Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>

#include "common/base/result.h"
#include "server/files/file_io.h"
#include "server/kinds/coq/scan/file_blob.h"

namespace millrace {

class BlobSpool {
 public:
  /// Makes the file in `folder`.
  static Result<BlobSpool> Create(const std::filesystem::path& folder);
  BlobSpool(BlobSpool&& other) noexcept : file_(std::move(other.file_)), end_(other.end_.load()) {}

  /// Writes a blob and returns its place.
  Result<std::uint64_t> Put(FileBlob& blob);
  Result<FileBlob> Get(std::uint64_t place) const;

 private:
  explicit BlobSpool(FileDescriptor file) : file_(std::move(file)) {}

  FileDescriptor file_;
  std::atomic<std::uint64_t> end_{0};
};

}  // namespace millrace
