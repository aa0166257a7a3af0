// Writes TFRecord files.
//
// Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/base/result.h"
#include "server/files/file_io.h"

namespace millrace {

class RecordWriter {
 public:
  /// Makes a new file, which replaces any file of that name; links are not followed. All errors of
  /// this class name the file.
  static Result<RecordWriter> Create(const std::filesystem::path& path);

  /// Appends a record. After an error the file is useless.
  Status Append(std::span<const std::byte> data);

  /// Writes the rest, and with `sync` waits until it is on disk. Nothing may be appended then. A
  /// writer that is destroyed without Close leaves a truncated file.
  Status Close(bool sync);

  std::uint64_t records() const { return records_; }
  /// Bytes of all records with their frames.
  std::uint64_t bytes() const { return written_ + buffer_.size(); }

 private:
  RecordWriter(FileDescriptor file, std::string name)
      : file_(std::move(file)), name_(std::move(name)) {}
  void Put(std::span<const std::byte> bytes) {
    buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
  }
  Status Flush();
  Status Write(std::span<const std::byte> bytes);

  FileDescriptor file_;
  std::string name_;  // for messages
  std::vector<std::byte> buffer_;
  std::uint64_t written_ = 0;
  std::uint64_t records_ = 0;
};

}  // namespace millrace
