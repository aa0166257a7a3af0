// Loops that convert and scale values. Arrays do not overlap, and are aligned for their values.
#pragma once

#include <cstddef>

#include "common/base/dtype.h"

namespace millrace {

/// Converts `count` values.
using ConvertLoop = void (*)(const std::byte* in, std::byte* out, std::size_t count);
ConvertLoop ConvertLoopOf(DType from, DType to);

/// out[i] = in[i] * scale[i] + offset[i], the product rounded before the sum. All values are of one
/// type; integers wrap, and a NaN is always the quiet one without sign and payload.
using ScaleLoop = void (*)(const std::byte* in, std::byte* out, std::size_t count,
                           const std::byte* scale, const std::byte* offset);
/// REQUIRES: compute is an integer, float32 or float64.
ScaleLoop ScaleLoopOf(DType compute);

}  // namespace millrace
