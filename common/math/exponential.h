// exp, log and tanh with the same bits on every machine, made of IEEE additions, multiplications
// and divisions only, and of integer operations on the bits. At most 4 ulp from the exact value;
// for floats, which go through double and are rounded once, at most 1.
//
// There are no branches that depend on values, so that compilers can vectorise loops over them. A
// NaN gives a NaN. See bits.h for how to compile this.
//
// Pure functions.
#pragma once

#include "common/math/bits.h"

namespace millrace::math {
namespace internal {

constexpr double kLog2E = 0x1.71547652b82fep+0;    // 1 / ln 2
constexpr double kLn2High = 0x1.62e42fef00000p-1;  // 33 bits: its products with exponents are exact
constexpr double kLn2Low = 0x1.473de6af278edp-34;
constexpr double kHalf = 0.5;

/// exp(x) = 2^k * (1 + rest), where k = sum - kToInteger.
struct Exponential {
  double sum = 0;
  double rest = 0;
};

/// REQUIRES: |x| < 2^10. The rest has an error below 1 ulp, also near 0.
MILLRACE_MATH Exponential Reduce(double x) {
  const double sum = x * kLog2E + kToInteger;
  const double k = sum - kToInteger;
  const double r = (x - k * kLn2High) - k * kLn2Low;  // |r| <= ln 2 / 2
  const double r2 = r * r;
  // The series of (exp(r) - 1 - r) / r^2: terms with even and with odd powers beside each other.
  double even = 1.0 / 479001600;  // 1 / 12!
  even = even * r2 + 1.0 / 3628800;
  even = even * r2 + 1.0 / 40320;
  even = even * r2 + 1.0 / 720;
  even = even * r2 + 1.0 / 24;
  even = even * r2 + kHalf;
  double odd = 1.0 / 6227020800;  // 1 / 13!
  odd = odd * r2 + 1.0 / 39916800;
  odd = odd * r2 + 1.0 / 362880;
  odd = odd * r2 + 1.0 / 5040;
  odd = odd * r2 + 1.0 / 120;
  odd = odd * r2 + 1.0 / 6;
  return {sum, r + r2 * (even + r * odd)};
}

}  // namespace internal

MILLRACE_MATH double Exp(double x) {
  using namespace internal;
  // Beyond these bounds the result is infinity or 0 anyway.
  double bounded = x > 710 ? 710 : x;
  bounded = bounded < -746 ? -746 : bounded;
  const Exponential e = Reduce(bounded);
  // In two steps, because 2^k alone can be too large or too small. Only the last one rounds.
  const double k = e.sum - kToInteger;
  const double half_sum = k * kHalf + kToInteger;
  const double other_sum = (k - (half_sum - kToInteger)) + kToInteger;
  return (1 + e.rest) * PowerOfTwo(half_sum) * PowerOfTwo(other_sum);
}

/// log(0) is minus infinity; the log of a negative number is NaN.
MILLRACE_MATH double Log(double x) {
  using namespace internal;
  constexpr std::uint64_t kRootOfHalf = 0x3fe6a09e667f3bcd;
  const bool subnormal = x < 0x1p-1022;
  const double scaled = subnormal ? x * 0x1p54 : x;
  // x = 2^k * m with sqrt(1/2) <= m < sqrt(2).
  const std::uint64_t shifted = ToBits(scaled) + (kOneBits - kRootOfHalf);
  const double exponent = FromBits(0x4330000000000000 | shifted >> 52) - 0x1p52;
  const double k = exponent - (subnormal ? 1023 + 54 : 1023);
  const double f = FromBits((shifted & kMantissaBits) + kRootOfHalf) - 1;
  // log(1 + f) = 2 * atanh(s), of which 2 * s = f - s * f is the first term.
  const double s = f / (2 + f);
  const double z = s * s;
  const double z2 = z * z;
  double even = 2.0 / 21;
  even = even * z2 + 2.0 / 17;
  even = even * z2 + 2.0 / 13;
  even = even * z2 + 2.0 / 9;
  even = even * z2 + 2.0 / 5;
  double odd = 2.0 / 19;
  odd = odd * z2 + 2.0 / 15;
  odd = odd * z2 + 2.0 / 11;
  odd = odd * z2 + 2.0 / 7;
  odd = odd * z2 + 2.0 / 3;
  const double rest = z * (odd + z * even);
  const double half_square = kHalf * f * f;
  const double log = k * kLn2High - ((half_square - (s * (half_square + rest) + k * kLn2Low)) - f);
  const double of_positive = x < FromBits(kInfinityBits) ? log : x;
  const double of_other = x == 0 ? FromBits(kInfinityBits | kSignBit) : FromBits(kNanBits);
  return x > 0 ? of_positive : of_other;
}

MILLRACE_MATH double Tanh(double x) {
  using namespace internal;
  // tanh(22) differs from 1 by less than a tenth of an ulp.
  const double magnitude = Magnitude(x);
  const Exponential e = Reduce(2 * (magnitude > 22 ? 22 : magnitude));
  const double scale = PowerOfTwo(e.sum);
  const double t = scale * e.rest + (scale - 1);  // exp(2 |x|) - 1
  return FromBits(ToBits(t / (t + 2)) | (ToBits(x) & kSignBit));
}

MILLRACE_MATH float Exp(float x) { return static_cast<float>(Exp(static_cast<double>(x))); }
MILLRACE_MATH float Log(float x) { return static_cast<float>(Log(static_cast<double>(x))); }
MILLRACE_MATH float Tanh(float x) { return static_cast<float>(Tanh(static_cast<double>(x))); }

}  // namespace millrace::math
