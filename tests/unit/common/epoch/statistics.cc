#include "tests/unit/common/epoch/statistics.h"

#include <algorithm>
#include <cmath>

namespace millrace::test {
namespace {

/// The regularised upper incomplete gamma function Q(a, x). Below a + 1 it uses the series, above
/// it Lentz's continued fraction (Numerical Recipes, section 6.2).
double UpperGamma(double a, double x) {
  if (x <= 0) return 1;
  const double factor = std::exp(-x + a * std::log(x) - std::lgamma(a));
  if (x < a + 1) {
    double term = 1 / a;
    double sum = term;
    for (double n = a + 1; std::abs(term) > std::abs(sum) * 1e-15; ++n) {
      term *= x / n;
      sum += term;
    }
    return 1 - sum * factor;
  }
  double b = x + 1 - a;
  double c = 1e300;
  double d = 1 / b;
  double fraction = d;
  for (int i = 1; i < 100'000; ++i) {
    const double an = -i * (i - a);
    b += 2;
    d = 1 / (an * d + b);
    c = b + an / c;
    fraction *= d * c;
    if (std::abs(d * c - 1) < 1e-15) break;
  }
  return fraction * factor;
}

}  // namespace

double ChiSquareP(double statistic, double freedom) {
  return UpperGamma(freedom / 2, statistic / 2);
}

double NormalP(double z) { return std::erfc(-z / std::sqrt(2.0)) / 2; }

double PoissonP(std::uint64_t count, double mean, double u) {
  const auto k = static_cast<double>(count);
  const double below = count == 0 ? 0 : UpperGamma(k, mean);
  return below + u * std::exp(-mean + k * std::log(mean) - std::lgamma(k + 1));
}

double BinomialP(std::uint64_t count, std::uint64_t trials, double probability, double u) {
  double mass = std::pow(1 - probability, static_cast<double>(trials));  // P(X = 0)
  double below = 0;
  for (std::uint64_t k = 0; k < count; ++k) {
    below += mass;
    mass *= static_cast<double>(trials - k) / static_cast<double>(k + 1) * probability /
            (1 - probability);
  }
  return below + u * mass;
}

double HypergeometricP(std::uint64_t count, std::uint64_t total, std::uint64_t marked,
                       std::uint64_t draws, double u) {
  const auto log_choose = [](std::uint64_t n, std::uint64_t k) {
    return std::lgamma(static_cast<double>(n) + 1) - std::lgamma(static_cast<double>(k) + 1) -
           std::lgamma(static_cast<double>(n - k) + 1);
  };
  const auto mass = [&](std::uint64_t k) {
    if (k > marked || k > draws || draws - k > total - marked) return 0.0;
    return std::exp(log_choose(marked, k) + log_choose(total - marked, draws - k) -
                    log_choose(total, draws));
  };
  double below = 0;
  for (std::uint64_t k = 0; k < count; ++k) below += mass(k);
  return below + u * mass(count);
}

double KolmogorovSmirnov(std::vector<double> p_values) {
  std::sort(p_values.begin(), p_values.end());
  const auto n = static_cast<double>(p_values.size());
  double distance = 0;
  for (std::size_t i = 0; i < p_values.size(); ++i) {
    const auto rank = static_cast<double>(i);
    distance = std::max({distance, p_values[i] - rank / n, (rank + 1) / n - p_values[i]});
  }
  return distance * std::sqrt(n) / 1.9495;
}

double Uniform::Next() {
  state_ ^= state_ >> 12;
  state_ ^= state_ << 25;
  state_ ^= state_ >> 27;
  return static_cast<double>((state_ * 2685821657736338717u) >> 11) * 0x1p-53;
}

}  // namespace millrace::test
