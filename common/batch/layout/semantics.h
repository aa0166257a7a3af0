// The version of what makes the bytes of batches.
#pragma once

#include <cstdint>

namespace millrace {

/// Version of what the bytes of a batch depend on besides data and parameters: closure, permutation
/// and layout. Part of every pipeline digest.
inline constexpr std::uint32_t kSemantics = 1;

}  // namespace millrace
