// The rows of a table that refers to itself, ordered so that each follows the rows that it refers
// to.
//
// Free functions, thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/base/result.h"
#include "server/plan/mix/linked_columns.h"

namespace millrace {

/// A column of references to rows of its own table.
struct OwnReferences {
  LinkedColumn column;
  std::span<const std::uint64_t> values;
};

/// First the rows that refer to no row, then the rows that refer only to these, and so on; rows of
/// one depth in the order of the table. References may lead anywhere in the table. DataLoss, which
/// names a row, if it is reached from itself. `first_is_none`: row 0 refers to nothing, whatever
/// its values are. REQUIRES: the rows that are referred to exist.
Result<std::vector<std::uint32_t>> RowsByDepth(std::uint64_t rows,
                                               std::span<const OwnReferences> references,
                                               bool first_is_none);

}  // namespace millrace
