// The tables of a source, to which numbers in its batches refer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/base/tables.h"

namespace millrace {

class TableWriter;  // common/transport/convert/table_writer.h

/// The meaning of a column whose values are not plain. It matters where the tables of several
/// sources become one (server/plan/mix/joined_tables.h), which moves rows.
enum class ColumnRole : std::uint8_t {
  kReference,  // rows of a table
  kCount,      // how often the row occurs in the data; of joined rows the sum
  kRun,        // how many rows of a table belong to this row. All runs follow each other, and the
               // last one ends at the last row of that table; rows before the first belong to no
               // row
};

/// A column with a role: it does not just identify its row.
struct ColumnMeaning {
  std::string column;  // of type kUnsigned
  ColumnRole role = ColumnRole::kReference;
  std::string table = {};  // whose rows are meant; may be the column's own table. Empty for kCount
  bool or_none = false;    // of kReference: the value is a row plus 1, or 0 for no row
};

/// A table of a source, without its values.
struct SourceTableSpec {
  TableSpec table;                   // without a digest
  std::vector<std::string> tensors;  // paths of the tensors with numbers of its rows
  /// Columns with a role. All other columns identify a row: rows that agree in them, and in the
  /// rows that they refer to, are the same, whatever the source.
  std::vector<ColumnMeaning> meanings = {};
  bool first_is_none = false;  // row 0 means "no row"; its values mean nothing
};

/// Immutable; thread-safe.
class SourceTables {
 public:
  virtual ~SourceTables() = default;

  /// Names, columns and numbers of rows. All are known at once.
  virtual std::vector<SourceTableSpec> TableSpecs() const = 0;
  /// Writes the columns of a table, in their order. The values are always the same. REQUIRES: there
  /// is a table of this number.
  virtual void WriteTable(std::size_t table, TableWriter& out) const = 0;
};

}  // namespace millrace
