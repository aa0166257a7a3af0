// Doubles as bits, and sums without an error, for the functions of this folder.
//
// C++17 for hosts and GPUs. Compile every source that includes it with -ffp-contract=off (nvcc:
// -fmad=false); otherwise results differ between processors.
#pragma once

#include <cstdint>
#include <cstring>

#ifdef __CUDACC__
#define MILLRACE_MATH inline __host__ __device__
#else
#define MILLRACE_MATH inline
#endif

namespace millrace::math::internal {

MILLRACE_MATH std::uint64_t ToBits(double x) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, &x, sizeof(bits));
  return bits;
}
MILLRACE_MATH double FromBits(std::uint64_t bits) {
  double x = 0;
  std::memcpy(&x, &bits, sizeof(x));
  return x;
}

constexpr std::uint64_t kSignBit = 0x8000000000000000;
constexpr std::uint64_t kOneBits = 0x3ff0000000000000;
constexpr std::uint64_t kInfinityBits = 0x7ff0000000000000;
constexpr std::uint64_t kNanBits = 0x7ff8000000000000;
constexpr std::uint64_t kMantissaBits = 0x000fffffffffffff;

/// x + kToInteger has x rounded to the nearest integer in its lowest bits, in two's complement, and
/// x + kToInteger - kToInteger is that integer. REQUIRES: |x| < 2^51.
constexpr double kToInteger = 0x1.8p52;

/// 2^k for `sum` = k + kToInteger. REQUIRES: -1022 <= k <= 1023.
MILLRACE_MATH double PowerOfTwo(double sum) { return FromBits((ToBits(sum) << 52) + kOneBits); }

MILLRACE_MATH double Magnitude(double x) { return FromBits(ToBits(x) & ~kSignBit); }

/// Two doubles for their exact sum. |low| is at most half an ulp of `high`.
struct Pair {
  double high = 0;
  double low = 0;
};

/// a + b, exactly.
MILLRACE_MATH Pair ExactSum(double a, double b) {
  const double sum = a + b;
  const double of_b = sum - a;
  return {sum, (a - (sum - of_b)) + (b - of_b)};
}

/// a * b, exactly, if nothing overflows or becomes subnormal.
MILLRACE_MATH Pair ExactProduct(double a, double b) {
  const double split_a = a * 0x1.0000002p27;
  const double split_b = b * 0x1.0000002p27;
  const double high_a = split_a - (split_a - a);
  const double high_b = split_b - (split_b - b);
  const double low_a = a - high_a;
  const double low_b = b - high_b;
  const double product = a * b;
  return {product, ((high_a * high_b - product) + high_a * low_b + low_a * high_b) + low_a * low_b};
}

}  // namespace millrace::math::internal
