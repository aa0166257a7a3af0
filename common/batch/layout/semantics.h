// The version of the rules that determine the bytes of batches.
#pragma once

#include <cstdint>

namespace millrace {

/// Version of the rules, besides data and parameters, that the bytes of a batch depend on: closure,
/// permutation and layout. It is part of every pipeline digest.
inline constexpr std::uint32_t kSemantics = 1;

}  // namespace millrace
