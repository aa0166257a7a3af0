// The file of a measured column. docs/formats/columns.md has the format.
//
// Free functions; thread-safe.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "server/source/measured_values.h"

namespace millrace {

/// The identity of a column.
struct ColumnKey {
  Digest128 dataset;     // of the data
  Digest128 operations;  // that build the examples
  std::string name;      // of the column; at most 1,024 bytes
  friend bool operator==(const ColumnKey&, const ColumnKey&) = default;

  /// The name of its file: 32 hex digits and a suffix.
  std::string FileName() const;
};

/// The bytes of a column's file. REQUIRES: the name has at most 1,024 bytes.
std::vector<std::byte> EncodeColumn(const ColumnKey& key, const MeasuredValues& values);
/// The values in a file's bytes. DataLoss with the error if they are damaged, of another version,
/// or of another column.
Result<MeasuredValues> DecodeColumn(std::span<const std::byte> bytes, const ColumnKey& key);

/// Writes a column into a folder, which is made if it is missing. The file is whole or absent.
Status WriteColumn(const std::filesystem::path& folder, const ColumnKey& key,
                   const MeasuredValues& values);
/// Reads a column from a folder. NotFound if it is not there; DataLoss as DecodeColumn.
Result<MeasuredValues> ReadColumn(const std::filesystem::path& folder, const ColumnKey& key);

}  // namespace millrace
