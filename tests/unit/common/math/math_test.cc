// Compares common/math with the exact values, as long double has them: 11 bits more.
#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "common/math/arrays.h"
#include "common/math/exponential.h"
#include "common/math/trigonometry.h"
#include "tests/unit/common/math/recorded.h"

namespace millrace {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kDenormal = std::numeric_limits<double>::denorm_min();
static_assert(std::numeric_limits<long double>::digits >= 64);

struct Function {
  std::string name;
  double (*of_double)(double);
  float (*of_float)(float);
  long double (*exact)(long double);
  void (*of_each)(const double*, double*, std::size_t);
  void (*of_each_float)(const float*, float*, std::size_t);
  double low = 0;  // where values are neither 0 nor infinite
  double high = 0;
};

const std::vector<Function>& Functions() {
  static const std::vector<Function> functions = {
      {"exp", math::Exp, math::Exp, std::exp, math::ExpOfEach, math::ExpOfEach, -746, 710},
      {"log", math::Log, math::Log, std::log, math::LogOfEach, math::LogOfEach, 0, 8},
      {"tanh", math::Tanh, math::Tanh, std::tanh, math::TanhOfEach, math::TanhOfEach, -20, 20},
      {"sin", math::Sin, math::Sin, std::sin, math::SinOfEach, math::SinOfEach, -1e4, 1e4},
      {"cos", math::Cos, math::Cos, std::cos, math::CosOfEach, math::CosOfEach, -1e4, 1e4}};
  return functions;
}

/// How far `got` is from the exact value, in units of the last place of T there.
template <class T>
double UlpsFrom(long double exact, T got) {
  const T nearest = static_cast<T>(exact);
  if (std::isnan(got) && std::isnan(nearest)) return 0;
  if (got == nearest) return std::signbit(got) == std::signbit(nearest) ? 0 : kInfinity;
  if (!std::isfinite(got) || !std::isfinite(nearest)) return kInfinity;
  int exponent = 0;
  std::frexp(exact, &exponent);
  using Limits = std::numeric_limits<T>;
  const int last = std::max(exponent, Limits::min_exponent) - Limits::digits;
  return static_cast<double>(std::fabs(got - exact) / std::ldexp(1.0L, last));
}

std::vector<double> Inputs(const Function& function) {
  std::mt19937_64 random(15);
  std::vector<double> inputs = {
      0.0,       -0.0,  kInfinity, -kInfinity, kNan,         kDenormal, -kDenormal, 0x1p-1022,
      0x1p-1023, 1,     -1,        710,        709.79,       -745.14,   -746,       -708.4,
      22,        -22.5, 0x1p20,    0x1p1023,   0x1.fffffp19, 0x1.8p52,  -0x1p-30,   1e300};
  for (int i = 0; i < 20000; ++i) {
    inputs.push_back(math::internal::FromBits(random()));
    const double fraction = static_cast<double>(random()) * 0x1p-64;
    inputs.push_back(function.low + (function.high - function.low) * fraction);
    inputs.push_back(fraction * 2 - 1);
    inputs.push_back(1 + (fraction - 0.5) * 0x1p-10);
  }
  return inputs;
}

TEST_CASE("float64 functions are at most 4 ulp from the exact value", "[math]") {
  for (const Function& function : Functions()) {
    double worst = 0;
    double at = 0;
    for (const double x : Inputs(function)) {
      if (function.name == "log" && x < 0) continue;
      const double ulps = UlpsFrom(function.exact(x), function.of_double(x));
      if (ulps > worst) {
        worst = ulps;
        at = x;
      }
    }
    INFO(function.name << " of " << at);
    CHECK(worst <= 4);
  }
}

TEST_CASE("float32 functions are at most 1 ulp from the exact value", "[math]") {
  for (const Function& function : Functions()) {
    double worst = 0;
    float at = 0;
    for (const double wide : Inputs(function)) {
      const auto x = static_cast<float>(wide);
      if (function.name == "log" && x < 0) continue;
      const double ulps = UlpsFrom(function.exact(x), function.of_float(x));
      if (ulps > worst) {
        worst = ulps;
        at = x;
      }
    }
    INFO(function.name << " of " << at);
    CHECK(worst <= 1);
  }
}

TEST_CASE("sin and cos are exact near multiples of pi / 2 and for the largest angles", "[math]") {
  std::mt19937_64 random(16);
  constexpr long double kHalfPi = 1.57079632679489661923132169163975144L;
  double worst = 0;
  const auto check = [&](double x) {
    worst = std::max(worst, UlpsFrom(std::sin(static_cast<long double>(x)), math::Sin(x)));
    worst = std::max(worst, UlpsFrom(std::cos(static_cast<long double>(x)), math::Cos(x)));
  };
  for (int i = 0; i < 20000; ++i) {
    const double k = static_cast<double>(random() >> (random() % 62 + 1));
    check(static_cast<double>(k * kHalfPi));
    check(-static_cast<double>(k * kHalfPi));
    check(std::ldexp(1 + static_cast<double>(random() >> 12) * 0x1p-52,
                     static_cast<int>(random() % 1024)));
  }
  CHECK(worst <= 4);
  // No double is nearer to a multiple of pi / 2.
  CHECK(math::Cos(std::ldexp(6381956970095103.0, 797)) == -0x1.14ae72e6ba22fp-61);
  CHECK(math::Sin(0x1p20) == static_cast<double>(std::sin(0x1p20L)));
}

TEST_CASE("functions of special values are what IEEE 754 says", "[math]") {
  const auto same = [](double a, double b) {
    return (std::isnan(a) && std::isnan(b)) || (a == b && std::signbit(a) == std::signbit(b));
  };
  CHECK(same(math::Exp(0.0), 1));
  CHECK(same(math::Exp(-0.0), 1));
  CHECK(same(math::Exp(kInfinity), kInfinity));
  CHECK(same(math::Exp(-kInfinity), 0));
  CHECK(same(math::Exp(kDenormal), 1));
  CHECK(same(math::Log(1.0), 0));
  CHECK(same(math::Log(0.0), -kInfinity));
  CHECK(same(math::Log(-0.0), -kInfinity));
  CHECK(same(math::Log(kInfinity), kInfinity));
  CHECK(same(math::Log(-1.0), kNan));
  CHECK(same(math::Log(-kDenormal), kNan));
  CHECK(same(math::Log(-kInfinity), kNan));
  CHECK(same(math::Tanh(-0.0), -0.0));
  CHECK(same(math::Tanh(kDenormal), kDenormal));
  CHECK(same(math::Tanh(kInfinity), 1));
  CHECK(same(math::Tanh(-kInfinity), -1));
  CHECK(same(math::Sin(-0.0), -0.0));
  CHECK(same(math::Sin(-kDenormal), -kDenormal));
  CHECK(same(math::Cos(-0.0), 1));
  for (const double x : {kInfinity, -kInfinity, kNan}) {
    CHECK(same(math::Sin(x), kNan));
    CHECK(same(math::Cos(x), kNan));
  }
  for (const Function& function : Functions()) CHECK(same(function.of_double(kNan), kNan));
}

template <class T>
bool HaveEqualBits(const std::vector<T>& a, const std::vector<T>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](T x, T y) {
    return (x != x && y != y) || (x == y && std::signbit(x) == std::signbit(y));
  });
}

TEST_CASE("arrays of any length give the values of the functions", "[math]") {
  for (const Function& function : Functions()) {
    INFO(function.name);
    const std::vector<double> all = Inputs(function);
    for (const std::size_t count : {0, 1, 2, 3, 7, 255, 256, 257, 1000}) {
      std::vector<double> values(all.begin(), all.begin() + count);
      std::vector<float> floats(values.begin(), values.end());
      std::vector<double> expected(count);
      std::vector<float> expected_floats(count);
      std::transform(values.begin(), values.end(), expected.begin(), function.of_double);
      std::transform(floats.begin(), floats.end(), expected_floats.begin(), function.of_float);
      std::vector<double> got(count);
      std::vector<float> got_floats(count);
      function.of_each(values.data(), got.data(), count);
      function.of_each_float(floats.data(), got_floats.data(), count);
      CHECK(HaveEqualBits(got, expected));
      CHECK(HaveEqualBits(got_floats, expected_floats));
    }
  }
}

TEST_CASE("the functions have recorded bits, whatever options compile them", "[math]") {
  const std::string recorded = "b1977ffed06b63d217a72ab1d2e4afac";
  CHECK(test::DigestWithoutOptimisation().ToHex() == recorded);
  CHECK(test::DigestOptimised().ToHex() == recorded);
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    CHECK(test::DigestForNewerProcessors().ToHex() == recorded);
  }
#endif
}

}  // namespace
}  // namespace millrace
