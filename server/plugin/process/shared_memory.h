// Memory that the daemon shares with a process of a plugin: open files without a name.
//
// Neither end can make a file smaller (F_SEAL_SHRINK), so no access to mapped bytes can fault,
// whatever the process does. Thread-compatible.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "common/base/result.h"
#include "server/files/file_io.h"

namespace millrace {

/// Bytes that are mapped until this is destroyed.
class MappedBytes {
 public:
  MappedBytes() = default;
  explicit MappedBytes(std::span<std::byte> bytes) : bytes_(bytes) {}
  ~MappedBytes();
  MappedBytes(const MappedBytes&) = delete;
  MappedBytes& operator=(const MappedBytes&) = delete;
  std::span<std::byte> bytes() const { return bytes_; }

 private:
  std::span<std::byte> bytes_;
};

/// Memory that the daemon writes and the process reads.
class InputMemory {
 public:
  /// Makes room for `bytes`; earlier contents are lost. True if the process needs the new file.
  /// ResourceExhausted if the system has no memory left.
  Result<bool> Reserve(std::uint64_t bytes);
  /// REQUIRES: Reserve has succeeded.
  std::byte* data() const { return mapped_->bytes().data(); }
  int file() const { return file_.get(); }

 private:
  FileDescriptor file_;
  std::unique_ptr<MappedBytes> mapped_;
};

/// Memory that the process writes and enlarges, and the daemon reads.
class ReplyMemory {
 public:
  static Result<std::unique_ptr<ReplyMemory>> Make();
  int file() const { return file_.get(); }

  /// A word of the head. The process may write it at any time.
  std::uint64_t Word(std::size_t number) const;
  void SetWord(std::size_t number, std::uint64_t value);

  /// All of the memory as it is now, to be read. It stays mapped while the result is held.
  Result<std::shared_ptr<const MappedBytes>> Map();
  /// Whether somebody holds the result of Map.
  bool IsHeld() const { return whole_.use_count() > 1; }
  /// The size of the memory as it is now. Thread-safe.
  std::uint64_t FileBytes() const;

 private:
  FileDescriptor file_;
  std::unique_ptr<MappedBytes> head_;
  std::shared_ptr<const MappedBytes> whole_;
};

}  // namespace millrace
