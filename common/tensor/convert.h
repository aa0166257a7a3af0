// Conversions between the types of values. They give the same bits on every machine.
//
// A float becomes an integer by truncation, and saturates; NaN becomes 0. An integer that becomes a
// narrower one wraps. A bool is whether the value differs from 0. Everything that becomes a float
// is rounded once, to the nearest, ties to even. A NaN stays one: its sign and the upper bits of
// its payload stay, and it becomes quiet.
//
// Pure functions. C++17, because devices use them too.
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

#include "common/base/host_device.h"
#include "common/tensor/float_bits.h"

namespace millrace {

// Values of the types that C++20 lacks, in their form in memory.
struct Bool8 {
  std::uint8_t bits = 0;  // any number except 0 is true; conversions write 1
};
struct Float16 {
  std::uint16_t bits = 0;
};
struct BFloat16 {
  std::uint16_t bits = 0;
};

template <class T>
inline constexpr bool kIsSmallFloat = std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>;

namespace convert_internal {

/// The bits of the float nearest to `value`, with kExponent bits of exponent and kMantissa of
/// mantissa, kExponent + kMantissa = 15. NaN keeps its sign and the upper bits of its payload.
template <int kExponent, int kMantissa>
MILLRACE_HOST_DEVICE constexpr std::uint16_t Narrow(double value) {
  static_assert(kExponent + kMantissa == 15);
  constexpr int kBias = (1 << (kExponent - 1)) - 1;
  constexpr std::uint64_t kInfinity = ((std::uint64_t{1} << kExponent) - 1) << kMantissa;
  const auto bits = BitCast<std::uint64_t>(value);
  const auto sign = static_cast<std::uint16_t>(bits >> 48 & 0x8000);
  const auto exponent = static_cast<int>(bits >> 52 & 0x7ff);
  const std::uint64_t mantissa = bits & ((std::uint64_t{1} << 52) - 1);
  if (exponent == 0x7ff) {
    const std::uint64_t payload =
        mantissa == 0 ? 0 : mantissa >> (52 - kMantissa) | std::uint64_t{1} << (kMantissa - 1);
    return static_cast<std::uint16_t>(sign | kInfinity | payload);
  }
  // Subnormal doubles are far below the least value here, so they may lack their exponent.
  const std::uint64_t significand = mantissa | std::uint64_t{1} << 52;
  const int above_least = exponent - 1023 - (1 - kBias);  // below 0: the result is subnormal
  const int drop = 52 - kMantissa + (above_least < 0 ? -above_least : 0);
  if (drop > 53) return sign;
  const std::uint64_t rest = significand & ((std::uint64_t{1} << drop) - 1);
  const std::uint64_t half = std::uint64_t{1} << (drop - 1);
  std::uint64_t rounded = significand >> drop;
  if (rest > half || (rest == half && rounded % 2 == 1)) ++rounded;
  // The leading bit of a normal significand adds 1 to the exponent; so does a carry.
  if (above_least > 0) rounded += static_cast<std::uint64_t>(above_least) << kMantissa;
  return static_cast<std::uint16_t>(sign | (rounded < kInfinity ? rounded : kInfinity));
}

}  // namespace convert_internal

MILLRACE_HOST_DEVICE constexpr float HalfToFloat(std::uint16_t bits) {
  const std::uint32_t sign = std::uint32_t{bits} >> 15 << 31;
  const std::uint32_t exponent = bits >> 10 & 0x1f;
  const std::uint32_t mantissa = bits & 0x3ff;
  if (exponent == 0) {
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return BitCast<float>(sign | BitCast<std::uint32_t>(magnitude));
  }
  const std::uint32_t wide = exponent == 0x1f ? 0xff : exponent + 127 - 15;
  return BitCast<float>(sign | wide << 23 | mantissa << 13);
}

/// The same bits as HalfFromDouble returns for the value, without a branch, so that loops
/// vectorise.
MILLRACE_HOST_DEVICE constexpr std::uint16_t HalfFromFloat(float value) {
  constexpr std::uint32_t kInfinity = 0x7c00;
  constexpr std::uint32_t kLeastNormal = std::uint32_t{127 - 14} << 23;  // 2^-14
  constexpr std::uint32_t kTooLarge = std::uint32_t{127 + 16} << 23;     // 2^16
  const auto bits = BitCast<std::uint32_t>(value);
  const std::uint32_t magnitude = bits & 0x7fffffff;
  // The kept bits are rounded to the nearest by a sum: a half, or a bit less for an even one.
  const std::uint32_t rebiased = magnitude - (std::uint32_t{127 - 15} << 23);
  const std::uint32_t normal = (rebiased + 0xfff + (magnitude >> 13 & 1)) >> 13;
  // Beside 0.5, the last bit of a float is 2^-24, like the last bit of a subnormal half.
  const std::uint32_t subnormal =
      BitCast<std::uint32_t>(BitCast<float>(magnitude) + 0.5f) - BitCast<std::uint32_t>(0.5f);
  const std::uint32_t nan = kInfinity | 0x200 | (magnitude >> 13 & 0x3ff);
  std::uint32_t half = magnitude < kLeastNormal ? subnormal : normal;
  half = magnitude < kTooLarge ? half : kInfinity;
  half = magnitude > 0x7f800000 ? nan : half;
  return static_cast<std::uint16_t>((bits >> 16 & 0x8000) | half);
}

/// As HalfFromFloat, for BFloat16FromDouble.
MILLRACE_HOST_DEVICE constexpr std::uint16_t BFloat16FromFloat(float value) {
  const auto bits = BitCast<std::uint32_t>(value);
  const std::uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
  const std::uint32_t nan = bits >> 16 | 0x40;
  return static_cast<std::uint16_t>((bits & 0x7fffffff) > 0x7f800000 ? nan : rounded);
}

MILLRACE_HOST_DEVICE constexpr float BFloat16ToFloat(std::uint16_t bits) {
  return BitCast<float>(std::uint32_t{bits} << 16);
}

MILLRACE_HOST_DEVICE constexpr std::uint16_t HalfFromDouble(double value) {
  return convert_internal::Narrow<5, 10>(value);
}

MILLRACE_HOST_DEVICE constexpr std::uint16_t BFloat16FromDouble(double value) {
  return convert_internal::Narrow<8, 7>(value);
}

namespace convert_internal {

/// A double that rounds to a small float as the integer would. Beyond 53 bits, it is the integer
/// with its lowest bits folded into one, so that no tie is made or lost.
template <class From>
MILLRACE_HOST_DEVICE constexpr double ForRounding(From value) {
  if constexpr (sizeof(From) < 8 || std::is_same_v<From, double>) {
    return static_cast<double>(value);
  } else {
    bool negative = false;
    if constexpr (std::is_signed_v<From>) negative = value < 0;
    const std::uint64_t bits = static_cast<std::uint64_t>(value);
    std::uint64_t magnitude = negative ? 0 - bits : bits;
    if (magnitude >> 53 != 0) {
      magnitude = (magnitude & ~std::uint64_t{0x7ff}) | ((magnitude & 0x7ff) != 0 ? 0x800 : 0);
    }
    const auto wide = static_cast<double>(magnitude);
    return negative ? -wide : wide;
  }
}

/// Constants, because devices cannot call the functions of numeric_limits.
template <class T>
struct Extremes {
  static constexpr T kMin = std::numeric_limits<T>::min();
  static constexpr T kMax = std::numeric_limits<T>::max();
};

template <class To, class From>
MILLRACE_HOST_DEVICE constexpr To Truncate(From value) {
  // Both bounds are powers of two or 0, so they are exact.
  constexpr From kAbove =
      static_cast<From>(std::uint64_t{1} << (std::numeric_limits<To>::digits - 1)) * 2;
  constexpr From kLeast = static_cast<From>(Extremes<To>::kMin);
  if (!(value > kLeast)) return value == value ? Extremes<To>::kMin : To{0};
  return value < kAbove ? static_cast<To>(value) : Extremes<To>::kMax;
}

}  // namespace convert_internal

/// Converts by the rules at the head of this file. Types are the eight integers, bool, float,
/// double, and the three above.
template <class To, class From>
MILLRACE_HOST_DEVICE constexpr To ConvertValue(From value) {
  if constexpr (std::is_same_v<To, From>) {
    return value;
  } else if constexpr (std::is_same_v<From, Bool8>) {
    return ConvertValue<To>(value.bits != 0);
  } else if constexpr (std::is_same_v<From, Float16>) {
    return ConvertValue<To>(HalfToFloat(value.bits));
  } else if constexpr (std::is_same_v<From, BFloat16>) {
    return ConvertValue<To>(BFloat16ToFloat(value.bits));
  } else if constexpr (std::is_same_v<To, Bool8>) {
    return Bool8{static_cast<std::uint8_t>(value != From{0} ? 1 : 0)};
  } else if constexpr (std::is_same_v<To, bool>) {
    return value != From{0};
  } else if constexpr (kIsSmallFloat<To>) {
    if constexpr (std::is_same_v<From, double> || (std::is_integral_v<From> && sizeof(From) > 2)) {
      const double wide = convert_internal::ForRounding(value);
      return To{std::is_same_v<To, Float16> ? HalfFromDouble(wide) : BFloat16FromDouble(wide)};
    } else {
      const auto exact = static_cast<float>(value);
      return To{std::is_same_v<To, Float16> ? HalfFromFloat(exact) : BFloat16FromFloat(exact)};
    }
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    return convert_internal::Truncate<To>(value);
  } else if constexpr (std::is_floating_point_v<From> && std::is_floating_point_v<To>) {
    return ConvertFloat<To>(value);
  } else {
    return static_cast<To>(value);
  }
}

}  // namespace millrace
