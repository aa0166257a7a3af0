// Tests whether orders look as if they were drawn at random: over 1,000 fixed seeds, the p-values
// of each statistic must themselves be uniform (Kolmogorov-Smirnov at 0.1 %).
#include <catch2/catch.hpp>

#include <cmath>
#include <cstdint>
#include <vector>

#include "common/epoch/permutation.h"
#include "tests/unit/common/epoch/statistics.h"

namespace millrace {
namespace {

using test::BinomialP;
using test::ChiSquareP;
using test::HypergeometricP;
using test::KolmogorovSmirnov;
using test::NormalP;
using test::PoissonP;
using test::Uniform;

constexpr std::uint64_t kSeeds = 1000;
// 64 is the largest size that is shuffled; larger ones use networks. One of these is an exact
// square, the others need cycle walking. For smaller sizes chi-square is too coarse; tests of
// single cells cover them.
constexpr std::uint64_t kSizes[] = {64, 65, 100, 257, 1000, 4097};

std::vector<std::uint64_t> Order(std::uint64_t seed, std::uint64_t epoch, std::uint64_t n) {
  const Permutation permutation(seed, epoch, n);
  std::vector<std::uint64_t> order(n);
  for (std::uint64_t i = 0; i < n; ++i) order[i] = permutation(i);
  return order;
}

std::uint64_t Bin(std::uint64_t x, std::uint64_t n, std::uint64_t bins) {
  return static_cast<std::uint64_t>(static_cast<double>(x) / static_cast<double>(n) *
                                    static_cast<double>(bins));
}

double ChiSquare(const std::vector<std::uint64_t>& counts, double expected) {
  double sum = 0;
  for (const std::uint64_t count : counts) {
    const double difference = static_cast<double>(count) - expected;
    sum += difference * difference / expected;
  }
  return sum;
}

std::uint64_t Difference(std::uint64_t from, std::uint64_t to, std::uint64_t n) {
  return to >= from ? to - from : to + n - from;
}

TEST_CASE("the statistics know their own distributions", "[statistics]") {
  // These are textbook quantiles.
  CHECK(ChiSquareP(3.841, 1) == Approx(0.05).epsilon(1e-3));
  CHECK(ChiSquareP(293.248, 255) == Approx(0.05).epsilon(1e-3));
  CHECK(ChiSquareP(210.8, 255) == Approx(0.98).epsilon(1e-2));
  CHECK(NormalP(1.959964) == Approx(0.975).epsilon(1e-6));
  CHECK(PoissonP(0, 2, 1) == Approx(std::exp(-2.0)));
  CHECK(PoissonP(3, 2, 0) == Approx(5 * std::exp(-2.0)));
  CHECK(BinomialP(1, 3, 0.5, 0) == Approx(0.125));
  CHECK(BinomialP(1, 3, 0.5, 1) == Approx(0.5));
  CHECK(HypergeometricP(1, 5, 2, 2, 0) == Approx(0.3));
  CHECK(HypergeometricP(1, 5, 2, 2, 1) == Approx(0.9));
  CHECK(HypergeometricP(2, 5, 4, 3, 0) == Approx(0));
  Uniform uniform;
  std::vector<double> numbers(1000);
  for (double& x : numbers) x = uniform.Next();
  CHECK(KolmogorovSmirnov(numbers) < 1);
  for (double& x : numbers) x = std::pow(x, 1.2);
  CHECK(KolmogorovSmirnov(numbers) > 1);
}

TEST_CASE("every small permutation is reached and equally often", "[permutation]") {
  for (std::uint64_t n = 2; n <= 8; ++n) {
    std::uint64_t orders = 1;
    for (std::uint64_t i = 2; i <= n; ++i) orders *= i;
    // There are as many seeds as epochs. Each order is drawn 30 times on average, so that none is
    // missed by chance.
    const std::uint64_t side = n < 8 ? 640 : 1100;
    std::vector<std::uint64_t> counts(orders, 0);
    for (std::uint64_t seed = 0; seed < side; ++seed) {
      for (std::uint64_t epoch = 0; epoch < side; ++epoch) {
        const Permutation permutation(seed, epoch, n);
        std::uint64_t number = 0;  // in the factorial number system (Lehmer code)
        std::uint64_t values[8];
        for (std::uint64_t i = 0; i < n; ++i) {
          values[i] = permutation(i);
          std::uint64_t smaller = values[i];
          for (std::uint64_t j = 0; j < i; ++j) smaller -= values[j] < values[i];
          number = number * (n - i) + smaller;
        }
        ++counts[number];
      }
    }
    std::uint64_t reached = 0;
    for (const std::uint64_t count : counts) reached += count > 0;
    CHECK(reached == orders);
    const double expected = static_cast<double>(side * side) / static_cast<double>(orders);
    const double p = ChiSquareP(ChiSquare(counts, expected), static_cast<double>(orders - 1));
    INFO("n " << n << ": p " << p);
    CHECK(p > 0.001);
    CHECK(p < 0.999);
  }
}

TEST_CASE("every place has every value equally often over the seeds", "[permutation]") {
  Uniform uniform;
  for (const std::uint64_t n : {9u, 64u, 65u, 100u, 257u}) {
    std::vector<std::uint64_t> cells(n * n, 0);
    for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
      const auto order = Order(seed, 0, n);
      for (std::uint64_t i = 0; i < n; ++i) ++cells[i * n + order[i]];
    }
    std::vector<double> p_values;
    for (const std::uint64_t count : cells) {
      p_values.push_back(BinomialP(count, kSeeds, 1.0 / static_cast<double>(n), uniform.Next()));
    }
    INFO("n " << n);
    CHECK(KolmogorovSmirnov(p_values) < 1);
  }
}

/// One p-value for each seed: whether places and values are independent, by a table of 8 x 8
/// ranges.
std::vector<double> IndependenceOfPlaceAndValue(std::uint64_t n) {
  constexpr std::uint64_t kBins = 8;
  const std::uint64_t each = n / kBins;  // size of a range; the places left over are not counted
  std::vector<double> p_values;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    const Permutation permutation(seed, 0, n);
    std::vector<std::uint64_t> cells(kBins * kBins, 0);
    for (std::uint64_t i = 0; i < each * kBins; ++i) {
      const std::uint64_t value = permutation(i);
      if (value < each * kBins) ++cells[i / each * kBins + value / each];
    }
    // The margins of the table are fixed, so there are (bins - 1)^2 degrees of freedom.
    const auto size = static_cast<double>(n);
    const double statistic = ChiSquare(cells, size / (kBins * kBins)) * (size - 1) / size;
    p_values.push_back(ChiSquareP(statistic, (kBins - 1) * (kBins - 1)));
  }
  return p_values;
}

TEST_CASE("places and values are independent within a seed", "[permutation]") {
  CHECK(KolmogorovSmirnov(IndependenceOfPlaceAndValue(1000)) < 1);
  CHECK(KolmogorovSmirnov(IndependenceOfPlaceAndValue(4096)) < 1);
}

TEST_CASE("places and values are independent in the smallest network of few rounds",
          "[permutation]") {
  CHECK(KolmogorovSmirnov(IndependenceOfPlaceAndValue(65'536)) < 1);
}

TEST_CASE("differences of neighbours are uniform", "[permutation]") {
  for (const std::uint64_t n : kSizes) {
    const std::uint64_t bins = n < 1000 ? 8 : 32;
    std::vector<double> p_values;
    std::vector<std::uint64_t> pooled(n - 1, 0);
    for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
      const auto order = Order(seed, 1, n);
      std::vector<double> counts(bins, 0);
      for (std::uint64_t i = 0; i + 1 < n; ++i) {
        const std::uint64_t difference = Difference(order[i], order[i + 1], n) - 1;  // 0 to n - 2
        ++counts[difference * bins / (n - 1)];
        ++pooled[difference];
      }
      double sum = 0;
      for (std::uint64_t bin = 0; bin < bins; ++bin) {
        // The bin has those differences d for which d * bins / (n - 1) == bin.
        const std::uint64_t first = (bin * (n - 1) + bins - 1) / bins;
        const std::uint64_t end = ((bin + 1) * (n - 1) + bins - 1) / bins;
        const auto expected = static_cast<double>(end - first);
        sum += (counts[bin] - expected) * (counts[bin] - expected) / expected;
      }
      p_values.push_back(ChiSquareP(sum, static_cast<double>(bins - 1)));
    }
    INFO("n " << n);
    CHECK(KolmogorovSmirnov(p_values) < 1);
    // All seeds are pooled here: something that all orders have in common shows here first.
    const double p = ChiSquareP(ChiSquare(pooled, kSeeds), static_cast<double>(n - 2));
    CHECK(p > 0.001);
    CHECK(p < 0.999);
  }
}

TEST_CASE("neighbours are not correlated", "[permutation]") {
  for (const std::uint64_t n : kSizes) {
    const auto size = static_cast<double>(n);
    double s2 = 0;  // sums of powers of the centred values; for odd powers they are 0
    double s4 = 0;
    for (std::uint64_t i = 0; i < n; ++i) {
      const double x = static_cast<double>(i) - (size - 1) / 2;
      s2 += x * x;
      s4 += x * x * x * x;
    }
    // The formula is from A. Wald, J. Wolfowitz, "An exact test for randomness in the
    // non-parametric case based on serial correlation", 1943.
    const double mean = -s2 / (size - 1);
    const double variance =
        (s2 * s2 - s4) / (size - 1) + (s2 * s2 - 2 * s4) / ((size - 1) * (size - 2)) - mean * mean;
    std::vector<double> p_values;
    for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
      const auto order = Order(seed, 2, n);
      double sum = 0;
      for (std::uint64_t i = 0; i < n; ++i) {
        sum += (static_cast<double>(order[i]) - (size - 1) / 2) *
               (static_cast<double>(order[(i + 1) % n]) - (size - 1) / 2);
      }
      p_values.push_back(NormalP((sum - mean) / std::sqrt(variance)));
    }
    INFO("n " << n);
    CHECK(KolmogorovSmirnov(p_values) < 1);
  }
}

TEST_CASE("as many things stay in their place as by chance", "[permutation]") {
  constexpr std::uint64_t kEpochs = 4;
  Uniform uniform;
  for (const std::uint64_t n : kSizes) {
    std::vector<double> p_values;
    for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
      std::uint64_t fixed = 0;
      for (std::uint64_t epoch = 0; epoch < kEpochs; ++epoch) {
        const Permutation permutation(seed, epoch, n);
        for (std::uint64_t i = 0; i < n; ++i) fixed += permutation(i) == i;
      }
      p_values.push_back(PoissonP(fixed, kEpochs, uniform.Next()));
    }
    INFO("n " << n);
    CHECK(KolmogorovSmirnov(p_values) < 1);
  }
}

TEST_CASE("as many neighbours stay neighbours in the next epoch as by chance", "[permutation]") {
  constexpr std::uint64_t kPairs = 2;
  Uniform uniform;
  for (const std::uint64_t n : kSizes) {
    std::vector<double> p_values;
    for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
      std::uint64_t kept = 0;
      for (std::uint64_t pair = 0; pair < kPairs; ++pair) {
        const auto order = Order(seed, 2 * pair, n);
        const Permutation next(seed, 2 * pair + 1, n);
        std::uint64_t before = next.Inverse(order[0]);
        for (std::uint64_t i = 1; i < n; ++i) {
          const std::uint64_t place = next.Inverse(order[i]);
          kept += place == before + 1 || before == place + 1;
          before = place;
        }
      }
      const double mean = 2.0 * kPairs * static_cast<double>(n - 1) / static_cast<double>(n);
      p_values.push_back(PoissonP(kept, mean, uniform.Next()));
    }
    INFO("n " << n);
    CHECK(KolmogorovSmirnov(p_values) < 1);
  }
}

TEST_CASE("a stretch of a long order looks like independent draws", "[permutation]") {
  constexpr std::uint64_t kLength = 1024;
  constexpr std::uint64_t kBins = 16;
  for (const std::uint64_t n :
       {std::uint64_t{1'000'003}, std::uint64_t{1} << 32, std::uint64_t{1} << 40}) {
    std::vector<double> values;
    std::vector<double> differences;
    std::vector<double> correlations;
    std::vector<double> moves;
    for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
      const Permutation permutation(seed, 0, n);
      const Permutation next(seed, 1, n);
      const std::uint64_t first = seed % 2 == 0 ? 0 : n / 2;
      // The stretch is cut into kBins slices, and each slice has a row of bins.
      std::vector<std::uint64_t> value_counts(kBins * kBins, 0);
      std::vector<std::uint64_t> difference_counts(kBins, 0);
      std::vector<std::uint64_t> move_counts(kBins, 0);
      double sum = 0;
      std::uint64_t before = permutation(first + kLength);
      for (std::uint64_t i = 0; i < kLength; ++i) {
        const std::uint64_t value = permutation(first + i);
        ++value_counts[i / (kLength / kBins) * kBins + Bin(value, n, kBins)];
        ++difference_counts[Bin(Difference(before, value, n), n, kBins)];
        ++move_counts[Bin(next.Inverse(value), n, kBins)];
        sum += (static_cast<double>(value) / static_cast<double>(n) - 0.5) *
               (static_cast<double>(before) / static_cast<double>(n) - 0.5);
        before = value;
      }
      const double each = static_cast<double>(kLength) / kBins;
      values.push_back(ChiSquareP(ChiSquare(value_counts, each / kBins), kBins * (kBins - 1)));
      differences.push_back(ChiSquareP(ChiSquare(difference_counts, each), kBins - 1));
      moves.push_back(ChiSquareP(ChiSquare(move_counts, each), kBins - 1));
      correlations.push_back(NormalP(sum * 12 / std::sqrt(static_cast<double>(kLength))));
    }
    INFO("n " << n);
    CHECK(KolmogorovSmirnov(values) < 1);
    CHECK(KolmogorovSmirnov(differences) < 1);
    CHECK(KolmogorovSmirnov(correlations) < 1);
    CHECK(KolmogorovSmirnov(moves) < 1);
  }
}

}  // namespace
}  // namespace millrace
