// Which columns a plan reads.
#pragma once

#include <set>
#include <string>
#include <string_view>

#include "server/source/plan_parts.h"

namespace millrace {

/// The column with the lengths of a tensor that is named as in expressions, with '.' for '/'.
std::string LengthColumnOf(std::string_view tensor);

/// The columns of examples that a plan reads: the names in `filter.where`, `batch.bucket.by` and
/// `balance.by`, and the length that `chunk` cuts or `pack` packs. Beside `pack`, the latter two
/// texts read columns of rows. A text that is no expression reads no column.
std::set<std::string> ColumnsReadBy(const PlanParts& parts);

}  // namespace millrace
