#include "common/tensor/convert.h"

#include <catch2/catch.hpp>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>

#include "common/tensor/scale.h"

namespace millrace {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

/// Looks through all values of one sign for the one nearest to `value`, ties to even.
template <class ToFloat>
std::uint16_t NearestOf(double value, std::uint16_t infinity, const ToFloat& to_float) {
  const std::uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const double magnitude = std::fabs(value);
  std::uint16_t low = 0;
  std::uint16_t high = infinity;
  while (high - low > 1) {
    const auto middle = static_cast<std::uint16_t>((low + high) / 2);
    (static_cast<double>(to_float(middle)) <= magnitude ? low : high) = middle;
  }
  const double below = to_float(low);
  // Beyond the greatest value, the next one of the same exponent decides.
  const double above =
      high < infinity
          ? static_cast<double>(to_float(high))
          : 2 * below - static_cast<double>(to_float(static_cast<std::uint16_t>(low - 1)));
  const double down = magnitude - below;
  const double up = above - magnitude;
  const bool upwards = up < down || (up == down && low % 2 == 1);
  return static_cast<std::uint16_t>(sign | (upwards ? high : low));
}

TEST_CASE("a float becomes the small float that its double becomes", "[convert]") {
  // Every exponent and sign, with mantissas at and beside all ties, and any others.
  std::mt19937 random(1);
  const auto same = [](std::uint32_t bits) {
    const auto value = std::bit_cast<float>(bits);
    const double wide = std::isnan(value) ? NanOfNan<double>(value) : value;
    if (HalfFromFloat(value) != HalfFromDouble(wide)) FAIL("float16 of " << bits);
    if (BFloat16FromFloat(value) != BFloat16FromDouble(wide)) FAIL("bfloat16 of " << bits);
  };
  for (std::uint32_t upper = 0; upper < 512; ++upper) {
    for (int bit = 0; bit < 23; ++bit) {
      for (const std::uint32_t beside : {0u, 1u, ~0u}) {
        for (const std::uint32_t above :
             {0u, 2u << bit, static_cast<std::uint32_t>(random()) << bit << 1}) {
          same(upper << 23 | (((1u << bit | above) + beside) & 0x7fffff));
        }
      }
    }
    for (int i = 0; i < 2000; ++i)
      same(upper << 23 | static_cast<std::uint32_t>(random() & 0x7fffff));
  }
}

TEST_CASE("a small float becomes a float and is found again", "[convert]") {
  for (std::uint32_t i = 0; i < 0x10000; ++i) {
    const auto bits = static_cast<std::uint16_t>(i);
    const float half = HalfToFloat(bits);
    const float brain = BFloat16ToFloat(bits);
    if (!std::isnan(half) && HalfFromDouble(half) != bits) FAIL("float16 " << bits);
    if (!std::isnan(brain) && BFloat16FromDouble(brain) != bits) FAIL("bfloat16 " << bits);
    if (std::isnan(half) != std::isnan(HalfToFloat(HalfFromDouble(half)))) FAIL("NaN " << bits);
    if (std::isnan(brain) != std::isnan(BFloat16ToFloat(BFloat16FromDouble(brain)))) {
      FAIL("NaN " << bits);
    }
  }
  CHECK(HalfToFloat(0x3c00) == 1);
  CHECK(HalfToFloat(0xc000) == -2);
  CHECK(HalfToFloat(0x7bff) == 65504);
  CHECK(HalfToFloat(0x0001) == 0x1p-24f);
  CHECK(HalfToFloat(0x7c00) == kInfinity);
  CHECK(std::signbit(HalfToFloat(0x8000)));
  CHECK(BFloat16ToFloat(0x3f80) == 1);
}

TEST_CASE("a double becomes the nearest small float, ties to even", "[convert]") {
  CHECK(HalfFromDouble(65519.99) == 0x7bff);
  CHECK(HalfFromDouble(65520) == 0x7c00);
  CHECK(HalfFromDouble(-1e300) == 0xfc00);
  CHECK(HalfFromDouble(1 + 0x1p-11) == 0x3c00);
  CHECK(HalfFromDouble(1 + 3 * 0x1p-11) == 0x3c02);
  CHECK(HalfFromDouble(1 + 0x1p-11 + 0x1p-52) == 0x3c01);
  CHECK(HalfFromDouble(0x1p-25) == 0);
  CHECK(HalfFromDouble(-0x1.0000000000001p-25) == 0x8001);
  CHECK(HalfFromDouble(5e-324) == 0);
  CHECK(HalfFromDouble(-0.0) == 0x8000);
  CHECK(BFloat16FromDouble(0x1p-134) == 0);
  CHECK(BFloat16FromDouble(0x1.0000000000001p-134) == 1);
  CHECK(BFloat16FromDouble(kInfinity) == 0x7f80);
  std::mt19937_64 random(7);
  for (int i = 0; i < 20'000; ++i) {
    // Exponents around both ranges, and mantissas with few bits so that ties occur.
    const int exponent = static_cast<int>(random() % 64) - 40;
    const double value =
        std::ldexp(static_cast<double>(random() % (1 << 14)) / (1 << 13), exponent) *
        (random() % 2 == 0 ? 1 : -1);
    if (HalfFromDouble(value) != NearestOf(value, 0x7c00, HalfToFloat)) FAIL("float16 " << value);
    const double wide = std::ldexp(value, static_cast<int>(random() % 200) - 100);
    if (BFloat16FromDouble(wide) != NearestOf(wide, 0x7f80, BFloat16ToFloat)) {
      FAIL("bfloat16 " << wide);
    }
  }
}

TEST_CASE("a float becomes an integer by truncation, and saturates", "[convert]") {
  CHECK(ConvertValue<std::int32_t>(2.9) == 2);
  CHECK(ConvertValue<std::int32_t>(-2.9) == -2);
  CHECK(ConvertValue<std::uint8_t>(-0.9f) == 0);
  CHECK(ConvertValue<std::uint8_t>(-3.0) == 0);
  CHECK(ConvertValue<std::uint8_t>(255.9f) == 255);
  CHECK(ConvertValue<std::uint8_t>(256.f) == 255);
  CHECK(ConvertValue<std::int8_t>(-128.7) == -128);
  CHECK(ConvertValue<std::int8_t>(kInfinity) == 127);
  CHECK(ConvertValue<std::int32_t>(2147483648.f) == std::numeric_limits<std::int32_t>::max());
  CHECK(ConvertValue<std::int32_t>(2147483520.f) == 2147483520);
  CHECK(ConvertValue<std::int64_t>(0x1p63) == std::numeric_limits<std::int64_t>::max());
  CHECK(ConvertValue<std::int64_t>(-0x1p63) == std::numeric_limits<std::int64_t>::min());
  CHECK(ConvertValue<std::uint64_t>(0x1p63) == std::uint64_t{1} << 63);
  CHECK(ConvertValue<std::uint64_t>(0x1p64f) == std::numeric_limits<std::uint64_t>::max());
  CHECK(ConvertValue<std::int64_t>(kNan) == 0);
  CHECK(ConvertValue<std::int16_t>(std::numeric_limits<float>::quiet_NaN()) == 0);
  CHECK(ConvertValue<std::int16_t>(Float16{0xc100}) == -2);
}

TEST_CASE("narrowing integers wraps, and bool is whether a value differs from 0", "[convert]") {
  CHECK(ConvertValue<std::int8_t>(std::int64_t{200}) == -56);
  CHECK(ConvertValue<std::uint16_t>(std::int32_t{-1}) == 65535);
  CHECK(ConvertValue<std::uint64_t>(std::int8_t{-1}) == std::numeric_limits<std::uint64_t>::max());
  CHECK(ConvertValue<bool>(0.5));
  CHECK(ConvertValue<bool>(kNan));
  CHECK_FALSE(ConvertValue<bool>(-0.0));
  CHECK(ConvertValue<Bool8>(std::int64_t{256}).bits == 1);
  CHECK(ConvertValue<int>(Bool8{2}) == 1);
  CHECK(ConvertValue<float>(true) == 1);
  CHECK(ConvertValue<Float16>(true).bits == 0x3c00);
  CHECK(ConvertValue<BFloat16>(Float16{0x3c01}).bits == 0x3f80);
}

TEST_CASE("a wide integer becomes a small float by one rounding", "[convert]") {
  const std::int64_t tie = (std::int64_t{1} << 60) + (std::int64_t{1} << 52);
  CHECK(ConvertValue<BFloat16>(tie).bits == 0x5d80);
  CHECK(ConvertValue<BFloat16>(tie + 1).bits == 0x5d81);
  CHECK(ConvertValue<BFloat16>(-tie - 1).bits == 0xdd81);
  CHECK(ConvertValue<BFloat16>(std::numeric_limits<std::int64_t>::min()).bits == 0xdf00);
  CHECK(ConvertValue<BFloat16>(std::numeric_limits<std::uint64_t>::max()).bits == 0x5f80);
  CHECK(ConvertValue<Float16>(std::int64_t{65519}).bits == 0x7bff);
  CHECK(ConvertValue<Float16>(std::int64_t{65520}).bits == 0x7c00);
  CHECK(ConvertValue<float>((std::int64_t{1} << 53) + (std::int64_t{1} << 29) + 1) ==
        0x1.000002p53f);
}

template <class T>
std::uint64_t BitsOf(T value) {
  return BitCast<typename FloatBits<T>::Word>(value);
}

template <class T>
T AnyNan(std::mt19937_64& random) {
  using Word = typename FloatBits<T>::Word;
  const auto word = static_cast<Word>(random());
  // Quiet or not, with any sign; not all bits of the mantissa may be 0.
  constexpr Word kQuiet = Word{1} << (FloatBits<T>::kMantissa - 1);
  const auto exponent = static_cast<Word>(FloatBits<T>::kQuietNan & ~kQuiet);
  return BitCast<T>(static_cast<Word>(word | exponent | 1));
}

TEST_CASE("NaNs made of their bits are those of the processor", "[convert]") {
  std::mt19937_64 random(3);
  for (int i = 0; i < 100'000; ++i) {
    volatile const float narrow = AnyNan<float>(random);
    volatile const double wide = AnyNan<double>(random);
    const float one = narrow;
    const double two = wide;
    if (BitsOf(NanOfNan<double>(one)) != BitsOf(static_cast<double>(narrow))) FAIL(BitsOf(one));
    if (BitsOf(NanOfNan<float>(two)) != BitsOf(static_cast<float>(wide))) FAIL(BitsOf(two));
    if (BitsOf(ScaleValue<float>(narrow, 3, 1)) != 0x7fc0'0000) FAIL(BitsOf(one));
    if (BitsOf(ScaleValue<double>(wide, 3, 1)) != 0x7ff8'0000'0000'0000) FAIL(BitsOf(two));
  }
  volatile const double infinity = kInfinity;
  volatile const float narrow_infinity = std::numeric_limits<float>::infinity();
  CHECK(BitsOf(ScaleValue<double>(infinity, 0, 1)) == 0x7ff8'0000'0000'0000);
  CHECK(BitsOf(ScaleValue<double>(infinity, 1, -infinity)) == 0x7ff8'0000'0000'0000);
  CHECK(BitsOf(ScaleValue<float>(narrow_infinity, 0, 1)) == 0x7fc0'0000);
}

TEST_CASE("a product is rounded before the sum, and integers wrap", "[convert]") {
  // 1 + 2^-12 squared, less 1: a fused operation would keep the last bit of the square.
  volatile const float value = 1 + 0x1p-12F;
  CHECK(ScaleValue<float>(value, value, -1) == 0x1p-11F);
  CHECK(ScaleValue<std::uint8_t>(200, 3, 1) == 89);
  CHECK(ScaleValue<std::int16_t>(-32768, 2, 5) == 5);
  CHECK(ScaleValue<std::int64_t>(std::numeric_limits<std::int64_t>::max(), 2, 1) == -1);
}

}  // namespace
}  // namespace millrace
