// The line that stands for one batch in logs: the same from `millrace digest --epoch`, which
// computes it, and from `millrace consume --log`, which was sent it.
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
/// {"epoch","step","rank","ordinal","hash","examples","dropped"}. examples: ids delivered, in row
/// order; dropped: [[id, reason], …], a reason by its name in
/// `names`. `hash`: XXH3-128 of the packed payload.
std::string BatchLogLine(const StepArithmetic& steps, Position at, std::uint32_t rank,
                         Digest128 hash, const BatchInfo& info, const DropReasonNames& names = {});

}  // namespace millrace::cli
