// Named tables: what the numbers in batches refer to, such as the names of labels. A table has
// columns, and each column has a value for every row. The number of a row is its place.
//
// Thread-compatible value types. Once filled, they are immutable and may be shared by threads.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "common/base/result.h"

namespace millrace {

enum class ColumnType : std::uint8_t { kUnsigned, kSigned, kText };
/// "uint64", "int64" or "text".
std::string_view ColumnTypeName(ColumnType type);

struct ColumnSpec {
  std::string name;
  ColumnType type = ColumnType::kUnsigned;
  friend bool operator==(const ColumnSpec&, const ColumnSpec&) = default;
};

/// A table without its values.
struct TableSpec {
  std::string name;
  std::uint64_t rows = 0;
  std::vector<ColumnSpec> columns;
  std::string digest;  // of the values, 32 hex digits; empty if they have not been written yet
  friend bool operator==(const TableSpec&, const TableSpec&) = default;
};

/// Whether `name` may name a table or a column: 1 to 64 characters, each one of a-z, 0-9 and _.
bool IsTableName(std::string_view name);

/// Texts of a column, one after another. They are bytes: usually UTF-8, but nobody checks it.
class TextColumn {
 public:
  TextColumn() = default;
  /// `ends[i]` is where text i ends. REQUIRES: they do not fall; the last one is the size of
  /// `bytes`.
  TextColumn(std::string bytes, std::vector<std::uint64_t> ends)
      : bytes_(std::move(bytes)), ends_(std::move(ends)) {}

  std::size_t size() const { return ends_.size(); }
  std::string_view operator[](std::size_t i) const {
    const std::uint64_t begin = i == 0 ? 0 : ends_[i - 1];
    return std::string_view(bytes_).substr(begin, ends_[i] - begin);
  }

 private:
  std::string bytes_;
  std::vector<std::uint64_t> ends_;
};

using TableColumn = std::variant<std::vector<std::uint64_t>, std::vector<std::int64_t>, TextColumn>;

/// A table with its values. The types and lengths of `columns` are those of `spec`.
struct NamedTable {
  TableSpec spec;
  std::vector<TableColumn> columns;
};

/// All tables of a plan.
class NamedTables {
 public:
  NamedTables() = default;
  explicit NamedTables(std::vector<NamedTable> tables) : tables_(std::move(tables)) {}

  const std::vector<NamedTable>& all() const { return tables_; }
  /// nullptr if there is no such table.
  const NamedTable* Find(std::string_view table) const;

  /// The values of a column. NotFound, with the names that there are, if there is no such table or
  /// column, or if it has another type.
  Result<std::span<const std::uint64_t>> Unsigned(std::string_view table,
                                                  std::string_view column) const;
  Result<std::span<const std::int64_t>> Signed(std::string_view table,
                                               std::string_view column) const;
  Result<const TextColumn*> Texts(std::string_view table, std::string_view column) const;

 private:
  Result<const TableColumn*> Column(std::string_view table, std::string_view column,
                                    ColumnType type) const;

  std::vector<NamedTable> tables_;
};

}  // namespace millrace
