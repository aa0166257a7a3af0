// A file mapped for reading, with what the file system said of it when it was mapped.
//
// The only place that maps files: whoever needs to know which addresses belong to which file (a
// handler of SIGBUS, which a file cut off under its map raises) has to ask here only.
//
// Immutable but for moves; thread-safe. The bytes live as long as the object.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

#include "common/base/result.h"
#include "server/dataset/file_identity.h"

namespace millrace {

/// How a map is going to be read: what the kernel reads ahead follows from it.
enum class AccessPattern : std::uint8_t { kSequential, kRandom };

class MappedFile {
 public:
  /// Maps the whole of a regular file. Messages leave the path to the caller (Status::WithContext).
  /// NotFound; PermissionDenied; DataLoss for what is empty or no regular file (never blocks on a
  /// pipe); ResourceExhausted.
  static Result<MappedFile> Open(const std::filesystem::path& path, AccessPattern pattern);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const std::filesystem::path& path() const { return path_; }
  /// As of Open.
  const FileIdentity& identity() const { return identity_; }

  void Advise(AccessPattern pattern) const;

  /// Whether the path now leads to another file, to one of another size or times, or nowhere.
  bool Changed() const;

 private:
  MappedFile() = default;
  void Unmap();

  std::filesystem::path path_;
  FileIdentity identity_;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace millrace
