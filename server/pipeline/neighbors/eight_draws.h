// The draws of eight rows at once, one in each lane of a vector (place_draws.h).
//
// Pure functions.
#pragma once

#include <cstdint>
#include <span>

#include "server/pipeline/neighbors/place_draws.h"

namespace millrace::internal {

/// The largest fan-out of DrawEight.
inline constexpr std::uint32_t kMostEightDraws = 32;

/// Whether the processor has the instructions that DrawEight needs.
bool HasEightDraws();

/// As PlaceDraws::Draw. Returns a bit for each row that needs more words than one a place: its
/// places are undefined. REQUIRES: HasEightDraws(); options.fanout <= kMostEightDraws; `places` has
/// room for kDrawSlack values more.
std::uint32_t DrawEight(std::span<const DrawnRow, 8> rows, const DrawOptions& options,
                        std::uint32_t* places);

}  // namespace millrace::internal
