// Which columns a plan reads.
#pragma once

#include <set>
#include <string>
#include <string_view>

#include "server/source/plan_parts.h"

namespace millrace {

/// The column with the lengths of a tensor that is named as in expressions, with '.' for '/'.
std::string LengthColumnOf(std::string_view tensor);

/// The names that `filter.where`, `batch.bucket.by` and `balance.by` read, and the length that
/// `chunk` cuts. A text that is no expression reads no column.
std::set<std::string> ColumnsReadBy(const PlanParts& parts);

}  // namespace millrace
