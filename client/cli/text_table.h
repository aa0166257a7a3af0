// Text in columns, for people.
//
// The free functions are thread-safe; a TextTable is not.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace millrace::cli {

/// Number of columns that a text takes. Each code point (UTF-8) counts as one column.
std::size_t ColumnsOf(std::string_view text);

/// The text, made safe to print: control characters, which could move the cursor or end a line,
/// become '?'.
std::string Printable(std::string_view text);

/// The text cut to `width` columns. If something was cut, the last column is '…'. 0: no limit.
std::string CutTo(std::string text, std::size_t width);

/// A time in the unit that a person would use: "5 s", "3 min 20 s", "2 h 10 min".
std::string Period(double seconds);

/// Rows of cells. Each column is as wide as its widest cell; two blanks separate columns.
class TextTable {
 public:
  explicit TextTable(std::vector<std::string> heading) { rows_.push_back(std::move(heading)); }
  /// REQUIRES: as many cells as the heading has.
  void Add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  /// Takes a column away, with its heading. Call it after the last Add. REQUIRES: there is one.
  void TakeAway(std::string_view heading);
  /// Number of rows, without the heading.
  std::size_t size() const { return rows_.size() - 1; }

  /// The heading, then the rows: one line each, without a newline at the end.
  std::vector<std::string> Lines() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace millrace::cli
