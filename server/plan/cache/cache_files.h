// The file operations of a disk cache, as an interface, so that tests can let each of them fail.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "server/files/file_io.h"

namespace millrace {

inline constexpr std::int64_t kNanosecondsASecond = 1'000'000'000;

/// Thread-safe. A path names the folder, or a file directly in it. Messages name the file.
class CacheFiles {
 public:
  struct Found {
    std::string name;
    std::uint64_t bytes = 0;
    std::int64_t modified_ns = 0;  // since 1970
  };

  virtual ~CacheFiles() = default;

  /// Makes the folder and its parents, unless they exist.
  virtual Status MakeFolder(const std::filesystem::path& folder) = 0;
  /// The regular files in the folder. NotFound if there is no folder.
  virtual Result<std::vector<Found>> List(const std::filesystem::path& folder) = 0;
  /// A new file, for writing and reading. It is an error if the name is taken.
  virtual Result<FileDescriptor> Create(const std::filesystem::path& path) = 0;
  /// For reading. Never follows a link, and never waits for a pipe.
  virtual Result<FileDescriptor> Open(const std::filesystem::path& path) = 0;
  /// Fills `bytes`. DataLoss if the file ends before. Does not name the file.
  virtual Status Read(const FileDescriptor& file, std::span<std::byte> bytes,
                      std::uint64_t offset) = 0;
  /// Writes all of `bytes`. Does not name the file.
  virtual Status Write(const FileDescriptor& file, std::span<const std::byte> bytes,
                       std::uint64_t offset) = 0;
  virtual Status Rename(const std::filesystem::path& from, const std::filesystem::path& to) = 0;
  virtual Status Remove(const std::filesystem::path& path) = 0;
  /// Sets the time of modification, in nanoseconds since 1970.
  virtual Status SetModified(const std::filesystem::path& path, std::int64_t modified_ns) = 0;
};

/// The file operations of the operating system.
class SystemCacheFiles : public CacheFiles {
 public:
  Status MakeFolder(const std::filesystem::path& folder) override;
  Result<std::vector<Found>> List(const std::filesystem::path& folder) override;
  Result<FileDescriptor> Create(const std::filesystem::path& path) override;
  Result<FileDescriptor> Open(const std::filesystem::path& path) override;
  Status Read(const FileDescriptor& file, std::span<std::byte> bytes,
              std::uint64_t offset) override;
  Status Write(const FileDescriptor& file, std::span<const std::byte> bytes,
               std::uint64_t offset) override;
  Status Rename(const std::filesystem::path& from, const std::filesystem::path& to) override;
  Status Remove(const std::filesystem::path& path) override;
  Status SetModified(const std::filesystem::path& path, std::int64_t modified_ns) override;
};

}  // namespace millrace
