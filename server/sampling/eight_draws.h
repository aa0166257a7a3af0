// The draws of eight rows at once, one in each lane of a vector (place_draws.h).
//
// Pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "server/sampling/place_draws.h"

namespace millrace::internal {

/// The largest fan-out of DrawEights.
inline constexpr std::uint32_t kMostEightDraws = 32;

/// Whether the processor has the instructions that DrawEights needs.
bool HasEightDraws();

/// As PlaceDraws::Draw. Appends to `again` the rows, by their place in `rows`, that may need more
/// than one word per place: their places are undefined. REQUIRES: HasEightDraws(); options.fanout
/// <= kMostEightDraws.
void DrawEights(std::span<const DrawnRow> rows, const DrawOptions& options, std::uint32_t* places,
                std::vector<std::uint32_t>& again);

}  // namespace millrace::internal
