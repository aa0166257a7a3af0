// A column that is not yet measured for every example: in memory, and in a file that grows, from
// which another process can go on. docs/formats/columns.md has the format of the file.
//
// Not thread-safe.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "common/base/log.h"
#include "common/base/result.h"
#include "server/files/file_io.h"
#include "server/plan/columns/column_folders.h"
#include "server/source/column_file.h"

namespace millrace {

class PartialColumn {
 public:
  /// Begins with the file in the first of the folders that has one; damaged records are measured
  /// again. If no folder can be written, a line is logged, and all values stay in memory.
  static PartialColumn Open(const ColumnPlace& place, std::shared_ptr<Logger> logger);

  /// Takes the values of the examples from `first` on, unless it has them. They have the column's
  /// type, and are the whole range of kMeasuredRange examples that begins there, as far as the
  /// source has it; otherwise InvalidArgument. An error of the disk is logged, and ends writing.
  Status Put(std::uint64_t first, const MeasuredValues& values);

  std::uint64_t examples() const { return examples_; }
  /// Number of measured examples.
  std::uint64_t measured() const { return measured_; }
  /// Whether the range that begins at an example is measured. REQUIRES: a range begins there.
  bool Has(std::uint64_t first) const;
  /// All values. FailedPrecondition if some are missing.
  Result<MeasuredValues> Values() const;
  /// Removes the file, because the column is kept elsewhere.
  void RemoveFile();

  /// The name of its file in a folder.
  static std::filesystem::path FileIn(const std::filesystem::path& folder, const ColumnKey& key);

 private:
  PartialColumn(const ColumnPlace& place, std::shared_ptr<Logger> logger);

  /// Takes over the values of a file, and goes on writing behind them.
  Status GoOn(const std::filesystem::path& path);
  Status Create(const std::filesystem::path& path);
  void Take(std::uint64_t first, const MeasuredValues& values);
  /// Copies values to where the column keeps them, whatever their width.
  void Store(std::uint64_t first, std::span<const std::uint8_t> values, unsigned width);
  void Widen(unsigned width);

  ColumnKey key_;
  MeasuredType type_;
  std::uint64_t examples_;
  std::shared_ptr<Logger> logger_;
  std::uint64_t measured_ = 0;
  std::vector<bool> ranges_;  // that are measured
  unsigned width_ = 1;
  std::vector<std::uint8_t> stored_;   // as MeasuredValues::bytes
  std::vector<std::uint8_t> present_;  // as MeasuredValues::present
  std::filesystem::path path_;
  FileDescriptor file_;    // closed: nothing is written
  std::uint64_t end_ = 0;  // of the file
};

}  // namespace millrace
