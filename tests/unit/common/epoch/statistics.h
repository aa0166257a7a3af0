// Statistics for the tests of permutations and orders: p-values, and whether many p-values agree
// with the hypothesis. Pure functions.
#pragma once

#include <cstdint>
#include <vector>

namespace millrace::test {

/// P(X >= statistic) for X chi-square with `freedom` degrees of freedom.
double ChiSquareP(double statistic, double freedom);

/// P(X <= z) for a standard normal X.
double NormalP(double z);

/// A p-value of a Poisson(mean) count. It is uniform although the distribution has steps: P(X <
/// count) + u * P(X = count), with u uniform in [0, 1).
double PoissonP(std::uint64_t count, double mean, double u);

/// The same for a binomial count.
double BinomialP(std::uint64_t count, std::uint64_t trials, double probability, double u);

/// The same for a hypergeometric count: of `total` things `marked` are marked, and `draws` are
/// drawn.
double HypergeometricP(std::uint64_t count, std::uint64_t total, std::uint64_t marked,
                       std::uint64_t draws, double u);

/// The Kolmogorov-Smirnov distance between `p_values` and the uniform distribution, divided by its
/// critical value at 0.1 %. Above 1, the values do not count as uniform.
double KolmogorovSmirnov(std::vector<double> p_values);

/// A fixed sequence of uniform numbers in [0, 1), unrelated to the code under test (xorshift64*).
class Uniform {
 public:
  double Next();

 private:
  std::uint64_t state_ = 88172645463325252u;
};

}  // namespace millrace::test
