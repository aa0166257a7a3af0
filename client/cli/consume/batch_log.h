// The line for one batch in logs. `millrace digest --epoch` computes it; `millrace
// consume --log` writes it for each batch that it received. Both give the same line for the same
// batch.
//
// Pure functions.
#pragma once

#include <cstdint>
#include <string>

#include "common/base/ids.h"
#include "common/batch/layout/drop_reasons.h"
#include "common/batch/layout/layout.h"
#include "common/epoch/position.h"

namespace millrace::cli {

/// One JSON object without a newline:
/// {"epoch","step","rank","ordinal","hash","examples","dropped"}
/// examples: the ids delivered, in row order. dropped: [[id, reason], …], each reason by its name
/// in `names`. hash: XXH3-128 of the packed payload.
std::string BatchLogLine(const StepArithmetic& steps, Position at, std::uint32_t rank,
                         Digest128 hash, const BatchInfo& info, const DropReasonNames& names = {});

}  // namespace millrace::cli
