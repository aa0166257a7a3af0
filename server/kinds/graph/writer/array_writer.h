// Writes one array of a graph dataset into a .npy file, piece by piece.
//
// Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "common/base/hash.h"
#include "common/base/result.h"
#include "server/files/file_io.h"
#include "server/kinds/graph/format/graph_description.h"

namespace millrace {

class ArrayWriter {
 public:
  /// Makes the file `dir`/`path` and its folders. AlreadyExists if there is such a file. REQUIRES:
  /// CheckShape(type) is ok.
  static Result<ArrayWriter> Create(const std::filesystem::path& dir, std::string path,
                                    ArrayType type);

  /// Appends one value. REQUIRES: T is as wide as a value of the array.
  template <class T>
  Status Append(T value) {
    static_assert(std::is_trivially_copyable_v<T>);
    return AppendBytes(std::as_bytes(std::span(&value, 1)));
  }
  Status AppendBytes(std::span<const std::byte> bytes);

  /// Writes the rest, syncs the file, and returns its record. Internal if the number of bytes does
  /// not fit the shape.
  Result<ArrayRecord> Finish() &&;

 private:
  ArrayWriter(FileDescriptor file, std::string name, ArrayRecord record)
      : file_(std::move(file)), name_(std::move(name)), record_(std::move(record)) {}
  Status Flush();

  FileDescriptor file_;
  std::string name_;  // for messages
  ArrayRecord record_;
  std::vector<std::byte> buffer_;
  Xxh3Stream hash_;
};

}  // namespace millrace
