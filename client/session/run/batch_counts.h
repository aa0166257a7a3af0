// Counts what is in a packed batch, for a session's statistics.
//
// A pure function.
#pragma once

#include <string_view>

#include "client/session/machine/stats.h"
#include "common/batch/batch.h"

namespace millrace::client {

/// `token_tensor` is that of the plan's spec; empty: nothing counts as tokens.
BatchCounts CountsOf(const PackedBatch& batch, std::string_view token_tensor);

}  // namespace millrace::client
