// value * scale + offset, with the same bits on every machine: the product is rounded before the
// sum, so sources that use it are compiled without contraction (-ffp-contract=off, -fmad=false).
//
// Pure functions. C++17, because devices use them too.
#pragma once

#include <cstdint>
#include <type_traits>

#include "common/tensor/float_bits.h"

namespace millrace {

/// T is an integer, which wraps, or float or double, whose NaN is always the same one.
template <class T>
MILLRACE_HOST_DEVICE constexpr T ScaleValue(T value, T scale, T offset) {
  if constexpr (std::is_integral_v<T>) {
    // Unsigned and at least 32 bits wide, so that no product overflows.
    using Wide = std::conditional_t<(sizeof(T) < 4), std::uint32_t, std::make_unsigned_t<T>>;
    return static_cast<T>(static_cast<Wide>(value) * static_cast<Wide>(scale) +
                          static_cast<Wide>(offset));
  } else {
    // Processors differ in which NaN an operation gives.
    const T result = value * scale + offset;
    return result == result ? result : BitCast<T>(FloatBits<T>::kQuietNan);
  }
}

}  // namespace millrace
