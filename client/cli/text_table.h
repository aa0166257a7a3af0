// Text in columns, for a person.
//
// Free functions, thread-safe; a TextTable is not.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace millrace::cli {

/// Columns that a text takes: its code points (UTF-8), each taken for one column.
std::size_t ColumnsOf(std::string_view text);

/// The text without what would move a cursor or end a line: control characters become '?'.
std::string Printable(std::string_view text);

/// The text cut to `width` columns, the last one '…' where something was cut. 0: not cut.
std::string CutTo(std::string text, std::size_t width);

/// Seconds, minutes or hours, whichever a person would say: "5 s", "3 min 20 s", "2 h 10 min".
std::string Period(double seconds);

/// Rows of cells; columns as wide as their widest cell, two blanks between them.
class TextTable {
 public:
  explicit TextTable(std::vector<std::string> heading) { rows_.push_back(std::move(heading)); }
  /// REQUIRES: as many cells as the heading has.
  void Add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  /// Rows without the heading.
  std::size_t size() const { return rows_.size() - 1; }

  /// The heading, then the rows: one line each, without its end.
  std::vector<std::string> Lines() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace millrace::cli
