// Whether the sources of two branches have tables of the same form.
//
// Free functions, thread-safe.
#pragma once

#include <string>
#include <vector>

#include "common/base/result.h"
#include "server/source/source.h"

namespace millrace {

/// A branch and its tables.
struct TablesOfBranch {
  const std::string& branch;
  const std::vector<SourceTableSpec>& specs;
};

/// InvalidArgument, which names the table and both branches, if they do not have the same tables,
/// with the same columns, for the same tensors. Rows may differ.
Status CheckTablesAgree(const TablesOfBranch& a, const TablesOfBranch& b);

}  // namespace millrace
