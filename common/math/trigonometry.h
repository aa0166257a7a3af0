// sin and cos with the same bits on every machine, made like the functions of exponential.h: the
// same operations, the same bounds. They are reduced exactly for every double. Infinity gives NaN.
//
// Pure functions.
#pragma once

#include "common/math/bits.h"

namespace millrace::math {
namespace internal {

/// An angle: quadrant * pi / 2 + rest, with |rest| at most a bit above pi / 4.
struct Angle {
  std::uint64_t quadrant = 0;  // only its lowest two bits count
  Pair rest;
};

/// ReduceSmall can reduce angles below this bound.
constexpr double kSmallAngle = 0x1p20;

/// x - k * pi / 2 with pi / 2 in four parts. The products with the first three, of 33 bits each,
/// are exact. No double below kSmallAngle is so near to a multiple of pi / 2 that the error of
/// the fourth counts. REQUIRES: 0 <= x < kSmallAngle.
MILLRACE_MATH Angle ReduceSmall(double x) {
  const double sum = x * 0x1.45f306dc9c883p-1 + kToInteger;
  const double k = sum - kToInteger;
  const double first = x - k * 0x1.921fb54400000p+0;
  const Pair second = ExactSum(first, -(k * 0x1.0b4611a600000p-34));
  const Pair third = ExactSum(second.high, -(k * 0x1.3198a2e000000p-69));
  const double low = (second.low + third.low) - k * 0x1.b839a252049c1p-104;
  return {ToBits(sum), ExactSum(third.high, low)};
}

/// x modulo 2 * pi, by integers: x * 2 / pi with 2 bits before the point and 190 after it.
/// REQUIRES: kSmallAngle <= x, finite.
MILLRACE_MATH Angle ReduceLarge(double x) {
  // 2 / pi; the point is after the first two words.
  constexpr std::uint32_t kTwoOverPi[] = {
      0x00000000, 0x00000000, 0xa2f9836e, 0x4e441529, 0xfc2757d1, 0xf534ddc0, 0xdb629599,
      0x3c439041, 0xfe5163ab, 0xdebbc561, 0xb7246e3a, 0x424dd2e0, 0x06492eea, 0x09d1921c,
      0xfe1deb1c, 0xb129a73e, 0xe88235f5, 0x2ebb4484, 0xe99c7026, 0xb45f7e41, 0x3991d639,
      0x835339f4, 0x9c845f8b, 0xbdf9283b, 0x1ff897ff, 0xde05980f, 0xef2f118b, 0x5a0a6d1f,
      0x6d367ecf, 0x27cb09b7, 0x4f463f66, 0x9e5fea2d, 0x7527bac7, 0xebe5f17b, 0x3d0739f7,
      0x8a5292ea, 0x6bfb5fb1, 0x1f8d5d08, 0x56033046};
  // x = mantissa * 2^(exponent - 1075). A bit of 2 / pi before `begin` adds a multiple of 4.
  const std::uint64_t bits = ToBits(x);
  const std::uint64_t mantissa = (bits & kMantissaBits) | (kMantissaBits + 1);
  const auto begin = static_cast<unsigned>(bits >> 52) - 1075 + 64 - 2;
  const unsigned word = begin / 32;
  const unsigned shift = begin % 32;
  // mantissa * (192 bits of 2 / pi from `begin` on), modulo 2^192, highest word first.
  const std::uint64_t factors[2] = {mantissa & 0xffffffff, mantissa >> 32};
  std::uint64_t product[6] = {};
  for (int f = 0; f < 2; ++f) {
    std::uint64_t carry = 0;
    for (int i = 5; i >= f; --i) {
      const std::uint64_t two_words =
          std::uint64_t{kTwoOverPi[word + i]} << 32 | kTwoOverPi[word + i + 1];
      const std::uint64_t shifted = two_words << shift >> 32;
      carry += product[i - f] + factors[f] * shifted;
      product[i - f] = carry & 0xffffffff;
      carry >>= 32;
    }
  }
  // The nearest quadrant, and the signed rest as a magnitude.
  const std::uint64_t quadrant = ((product[0] >> 29) + 1) >> 1;
  const bool negative = (product[0] >> 29 & 1) != 0;
  product[0] &= 0x3fffffff;
  if (negative) {
    std::uint64_t carry = 1;
    for (int i = 5; i >= 0; --i) {
      carry += ~product[i] & 0xffffffff;
      product[i] = carry & 0xffffffff;
      carry >>= 32;
    }
    product[0] &= 0x3fffffff;
  }
  double high = 0;
  double low = 0;
  double unit = 0x1p-30;
  for (int i = 0; i < 6; ++i, unit *= 0x1p-32) {
    const Pair sum = ExactSum(high, static_cast<double>(product[i]) * unit);
    high = sum.high;
    low += sum.low;
  }
  const Pair turns = ExactSum(high, low);
  const Pair rest = ExactProduct(turns.high, 0x1.921fb54442d18p+0);
  const double more = turns.high * 0x1.1a62633145c07p-54 + turns.low * 0x1.921fb54442d18p+0;
  const Pair angle = ExactSum(rest.high, rest.low + more);
  return {quadrant, {negative ? -angle.high : angle.high, negative ? -angle.low : angle.low}};
}

MILLRACE_MATH double SinOfRest(const Pair& x) {
  const double z = x.high * x.high;
  const double z2 = z * z;
  double plus = 1.0 / 355687428096000;  // 1 / 17!
  plus = plus * z2 + 1.0 / 6227020800;
  plus = plus * z2 + 1.0 / 362880;
  plus = plus * z2 + 1.0 / 120;
  double minus = -1.0 / 1307674368000;  // -1 / 15!
  minus = minus * z2 - 1.0 / 39916800;
  minus = minus * z2 - 1.0 / 5040;
  minus = minus * z2 - 1.0 / 6;
  return x.high + ((x.high * z) * (minus + z * plus) + x.low * (1 - 0.5 * z));
}

MILLRACE_MATH double CosOfRest(const Pair& x) {
  const double z = x.high * x.high;
  const double z2 = z * z;
  double plus = 1.0 / 20922789888000;  // 1 / 16!
  plus = plus * z2 + 1.0 / 479001600;
  plus = plus * z2 + 1.0 / 40320;
  plus = plus * z2 + 1.0 / 24;
  double minus = -1.0 / 6402373705728000;  // -1 / 18!
  minus = minus * z2 - 1.0 / 87178291200;
  minus = minus * z2 - 1.0 / 3628800;
  minus = minus * z2 - 1.0 / 720;
  const double half = 0.5 * z;
  const double sum = 1 - half;
  return sum + (((1 - sum) - half) + (z2 * (plus + z * minus) - x.high * x.low));
}

/// sin(angle + turn * pi / 2), with its sign flipped if `sign` is kSignBit.
MILLRACE_MATH double SinOfAngle(const Angle& angle, std::uint64_t turn, std::uint64_t sign) {
  const std::uint64_t quadrant = angle.quadrant + turn;
  const double sin = SinOfRest(angle.rest);
  const double cos = CosOfRest(angle.rest);
  // Selects by bits, which compilers vectorise.
  const std::uint64_t take_cos = 0 - (quadrant & 1);
  const std::uint64_t bits = (ToBits(sin) & ~take_cos) | (ToBits(cos) & take_cos);
  return FromBits(bits ^ (quadrant << 62 & kSignBit) ^ sign);
}

/// REQUIRES: |x| < kSmallAngle.
MILLRACE_MATH double SinOfSmall(double x) {
  return SinOfAngle(ReduceSmall(Magnitude(x)), 0, ToBits(x) & kSignBit);
}
MILLRACE_MATH double CosOfSmall(double x) { return SinOfAngle(ReduceSmall(Magnitude(x)), 1, 0); }

MILLRACE_MATH bool IsSmall(double x) { return Magnitude(x) < kSmallAngle; }
MILLRACE_MATH bool IsFinite(double x) { return Magnitude(x) < FromBits(kInfinityBits); }

}  // namespace internal

MILLRACE_MATH double Sin(double x) {
  using namespace internal;
  if (IsSmall(x)) return SinOfSmall(x);
  if (!IsFinite(x)) return FromBits(kNanBits);
  return SinOfAngle(ReduceLarge(Magnitude(x)), 0, ToBits(x) & kSignBit);
}

MILLRACE_MATH double Cos(double x) {
  using namespace internal;
  if (IsSmall(x)) return CosOfSmall(x);
  if (!IsFinite(x)) return FromBits(kNanBits);
  return SinOfAngle(ReduceLarge(Magnitude(x)), 1, 0);
}

MILLRACE_MATH float Sin(float x) { return static_cast<float>(Sin(static_cast<double>(x))); }
MILLRACE_MATH float Cos(float x) { return static_cast<float>(Cos(static_cast<double>(x))); }

}  // namespace millrace::math
