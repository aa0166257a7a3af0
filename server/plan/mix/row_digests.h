// Digests of the rows of a source's tables, which can be compared with another source's digests.
//
// Free functions, thread-safe.
#pragma once

#include <cstddef>
#include <vector>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "common/base/tables.h"
#include "server/plan/mix/linked_columns.h"

namespace millrace {

/// A digest for every row of a table, all different: XXH3-128 of its columns, with the digests of
/// the rows that they refer to in place of numbers. Rows of two sources have equal digests if they
/// are the same, that is, if they agree in everything but numbers of rows and counts. A row that
/// repeats earlier rows of its table has a digest that counts these.
///
/// `known`: digests by table, of the tables that the table refers to. DataLoss, with column and
/// row, if a row refers to a row that does not exist, or to itself, or if runs are longer than
/// their table.
Result<std::vector<Digest128>> DigestRows(const std::vector<LinkedColumn>& columns,
                                          bool first_is_none, std::size_t table,
                                          const NamedTable& values,
                                          const std::vector<std::vector<Digest128>>& known);

}  // namespace millrace
