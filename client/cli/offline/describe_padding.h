// Describes what `pad.graph` does with a batch.
//
// Pure function.
#pragma once

#include <string>

#include "common/batch/batch.h"
#include "server/plan/plan.h"

namespace millrace::cli {

/// One line: how much of the padded batch is the batch's own, or why the batch does not fit. Empty
/// if the plan does not pad graphs.
std::string DescribePadding(const Plan& plan, const PackedBatch& batch);

}  // namespace millrace::cli
