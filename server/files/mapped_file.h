// A file mapped for reading, with what the file system said of it when it was mapped.
//
// The only place that maps files, and so the only one that registers them with the guard
// (sigbus_guard.h): where bytes of a file are gone, zeros are read. Whoever computes something from
// the bytes asks CheckIntact afterwards.
//
// Immutable but for moves; thread-safe. The bytes live as long as the object.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "common/base/result.h"
#include "server/files/file_identity.h"
#include "server/files/sigbus_guard.h"

namespace millrace {

/// How a map is going to be read: what the kernel reads ahead follows from it.
enum class AccessPattern : std::uint8_t {
  kSequential,  // once, from its beginning to its end
  kRandom,      // a few words here and there: a fault reads its page and no other
  kMixed,       // both by turns: a fault reads what lies around it, a scan is read ahead
};

/// What a look at a mapped file's path finds.
struct FileChange {
  enum class Kind : std::uint8_t {
    kSame,
    kTouched,   // only times differ: what is mapped may hold the same bytes, or others
    kReplaced,  // the path leads elsewhere or nowhere; what is mapped stays what it was
    kInPlace,   // what is mapped was written to, or cut off
  };
  Kind kind = Kind::kSame;
  std::string what;  // for a person, where there is a change
  FileIdentity now;  // where it is the same file
};

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
  /// Bytes that are in the page cache now, at most those of the file; ResourceExhausted.
  Result<std::uint64_t> CachedBytes() const;

  /// Whether the path now leads to another file, to one of another size or times, or nowhere.
  bool Changed() const;
  /// Whether what is mapped is still what it was when its identity was `known`, by size, inode and
  /// times: one call of stat.
  FileChange Look(const FileIdentity& known) const;
  FileChange Look() const { return Look(identity_); }
  /// DataLoss where bytes were found missing since Open: what was computed from them is worthless.
  Status CheckIntact() const;

 private:
  MappedFile() = default;
  void Unmap();

  std::filesystem::path path_;
  FileIdentity identity_;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  GuardedRange range_;
};

}  // namespace millrace
