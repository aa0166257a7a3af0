// A file that is mapped for reading, with the identity that it had when it was mapped.
//
// Only this class maps files, and so only this class registers them with the guard
// (sigbus_guard.h). If bytes of a file are gone, reads return zeros. So code that computes
// something from the bytes has to call CheckIntact afterwards.
//
// Immutable except for moves; thread-safe. The bytes live as long as the object.
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

/// How a mapped file will be read. The kernel uses this to decide how much to read ahead.
enum class AccessPattern : std::uint8_t {
  kSequential,  // once, from start to end
  kRandom,      // a few words here and there: a fault reads only its own page
  kMixed,       // both in turn: a fault reads the pages around it, and a scan is read ahead
};

/// The result of a check of the path of a mapped file.
struct FileChange {
  enum class Kind : std::uint8_t {
    kSame,
    kTouched,   // only times differ: the mapped bytes may be the same or not
    kReplaced,  // the path leads to another file or nowhere; the mapped bytes are unchanged
    kInPlace,   // the mapped file was written to, or truncated
  };
  Kind kind = Kind::kSame;
  std::string what;  // the change, for people; empty if unchanged
  FileIdentity now;  // set if it is the same file
};

class MappedFile {
 public:
  /// Maps the whole of a regular file. Messages do not contain the path; the caller adds it
  /// (Status::WithContext). NotFound. PermissionDenied. DataLoss for a file that is empty or not a
  /// regular file; it never blocks on a pipe. ResourceExhausted.
  static Result<MappedFile> Open(const std::filesystem::path& path, AccessPattern pattern);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const std::filesystem::path& path() const { return path_; }
  /// The identity at the time of Open.
  const FileIdentity& identity() const { return identity_; }

  void Advise(AccessPattern pattern) const;
  /// Hints that these bytes will be read soon, whatever the pattern is.
  void WillRead(std::uint64_t offset, std::uint64_t bytes) const;
  /// How many bytes of the file are in the page cache now. ResourceExhausted.
  Result<std::uint64_t> CachedBytes() const;

  /// Whether the path now leads to another file, nowhere, or to a file with another size or other
  /// times.
  bool Changed() const;
  /// Whether the mapped file is still the one whose identity was `known`, by size, inode and times.
  /// Costs one call of stat.
  FileChange Look(const FileIdentity& known) const;
  FileChange Look() const { return Look(identity_); }
  /// DataLoss if some bytes were missing since Open. Results that were computed from them are
  /// worthless.
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
