// Floats and their bits. A processor keeps the payload of a NaN that it converts or scales; a GPU
// gives one NaN for all. So code that has to give the same bits on both makes NaNs from their bits.
//
// Pure functions. C++17, because devices use them too.
#pragma once

#include <cstdint>
#include <type_traits>

#include "common/base/host_device.h"

namespace millrace {

template <class To, class From>
MILLRACE_HOST_DEVICE constexpr To BitCast(From from) {
  return __builtin_bit_cast(To, from);
}

template <class T>
struct FloatBits {
  static_assert(std::is_same_v<T, float> || std::is_same_v<T, double>);
  using Word = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  static constexpr int kMantissa = sizeof(T) == 4 ? 23 : 52;
  static constexpr Word kSign = Word{1} << (8 * sizeof(T) - 1);
  /// The exponent of NaNs, and the bit that makes them quiet.
  static constexpr Word kQuietNan = ~kSign & ~((Word{1} << (kMantissa - 1)) - 1);
};

/// The NaN of type To that a processor makes from one of type From, by converting or calculating:
/// quiet, with the same sign and the upper bits of the payload.
template <class To, class From>
MILLRACE_HOST_DEVICE constexpr To NanOfNan(From nan) {
  using In = FloatBits<From>;
  using Out = FloatBits<To>;
  using Wide = std::uint64_t;
  const Wide bits = BitCast<typename In::Word>(nan);
  constexpr int kMoved = Out::kMantissa - In::kMantissa;
  const Wide moved = kMoved >= 0 ? bits << (kMoved & 63) : bits >> (-kMoved & 63);
  const typename Out::Word sign = (bits & In::kSign) != 0 ? Out::kSign : 0;
  const auto payload = static_cast<typename Out::Word>(moved & ~Wide{Out::kSign});
  return BitCast<To>(static_cast<typename Out::Word>(sign | Out::kQuietNan | payload));
}

/// From float to double, or back.
template <class To, class From>
MILLRACE_HOST_DEVICE constexpr To ConvertFloat(From value) {
#if defined(__CUDA_ARCH__)
  if (value != value) return NanOfNan<To>(value);
#endif
  return static_cast<To>(value);
}

}  // namespace millrace
