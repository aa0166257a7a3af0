// The columns of a source's tables, with the numbers of the tables that they refer to.
//
// Value types, thread-compatible.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "common/base/result.h"
#include "server/source/source.h"

namespace millrace {

struct LinkedColumn {
  /// The row that a value of a reference means; nullopt if it means no row.
  std::optional<std::uint64_t> Row(std::uint64_t value) const {
    if (!or_none) return value;
    return value == 0 ? std::nullopt : std::optional(value - 1);
  }

  std::optional<ColumnRole> role = {};  // nullopt: it helps to identify its row
  std::size_t table = 0;                // of a reference or a run
  bool or_none = false;
};

struct LinkedTables {
  /// Internal, with table and column, if the specs make no sense: a meaning of a column that does
  /// not exist or has no numbers, a table that does not exist, or tables that refer to each other
  /// in a cycle (a table may refer to itself).
  static Result<LinkedTables> Make(const std::vector<SourceTableSpec>& specs);

  std::vector<std::vector<LinkedColumn>> columns;  // by table
  std::vector<std::size_t> order;  // of all tables: each after the tables that it refers to
};

}  // namespace millrace
