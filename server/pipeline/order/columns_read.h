// Which columns a plan reads.
#pragma once

#include <set>
#include <string>

#include "server/pipeline/graph/plan_parts.h"

namespace millrace {

/// The names that `filter.where`, `batch.bucket.by` and `balance.by` read, and the length that
/// `chunk` cuts. A text that is no expression reads none.
std::set<std::string> ColumnsReadBy(const PlanParts& parts);

}  // namespace millrace
