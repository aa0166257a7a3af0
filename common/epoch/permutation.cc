#include "common/epoch/permutation.h"

#include <cassert>
#include <cmath>

namespace millrace {
namespace {

__extension__ using Uint128 = unsigned __int128;

constexpr std::uint64_t kGolden = 0x9E3779B97F4A7C15u;  // 2^64 / golden ratio
// Below this size a network needs more rounds to look random. See
// docs/internals/decisions/permutation.md.
constexpr std::uint64_t kFewRoundsFrom = std::uint64_t{1} << 16;

std::uint64_t High(Uint128 product) { return static_cast<std::uint64_t>(product >> 64); }

/// The finaliser of splitmix64 (G. Steele, D. Lea, C. Flood, "Fast Splittable Pseudorandom Number
/// Generators", OOPSLA 2014; constants: D. Stafford's mix 13). A bijection.
std::uint64_t Mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

/// Folds both halves of a 128-bit product into 64 bits (the mixing step of wyhash, Wang Yi).
std::uint64_t Fold(std::uint64_t x, std::uint64_t y) {
  const Uint128 product = Uint128{x} * y;
  return High(product) ^ static_cast<std::uint64_t>(product);
}

/// A number below `bound`, made from `key` and `x`. A single fold would be too regular in
/// consecutive x.
std::uint64_t Round(std::uint64_t x, std::uint64_t key, std::uint64_t bound) {
  return High(Uint128{Fold(Fold(x ^ key, kGolden), 0xD6E8FEB86659FD93u)} * bound);
}

std::uint64_t AddModulo(std::uint64_t x, std::uint64_t y, std::uint64_t bound) {
  const std::uint64_t sum = x + y;
  return sum >= bound ? sum - bound : sum;
}

std::uint64_t SubtractModulo(std::uint64_t x, std::uint64_t y, std::uint64_t bound) {
  return x >= y ? x - y : x + bound - y;
}

struct Halves {
  std::uint64_t left;
  std::uint64_t right;
};

/// x / b and x % b, by the reciprocal of b. The first quotient may be too small by one, which is
/// corrected.
Halves Divide(std::uint64_t x, std::uint64_t b, std::uint64_t reciprocal) {
  const std::uint64_t left = High(Uint128{x} * reciprocal);
  const std::uint64_t right = x - left * b;
  return right < b ? Halves{left, right} : Halves{left + 1, right - b};
}

/// ceil(sqrt(n)), exact however the floating-point unit rounds. REQUIRES: n <= 2^62.
std::uint64_t CeilSqrt(std::uint64_t n) {
  auto root = static_cast<std::uint64_t>(std::sqrt(static_cast<double>(n)));
  while (root * root < n) ++root;
  while (root > 0 && (root - 1) * (root - 1) >= n) --root;
  return root;
}

}  // namespace

Permutation::Permutation(std::uint64_t seed, std::uint64_t epoch, std::uint64_t n)
    : n_(n), key_high_(Mix(seed + kGolden)), key_low_(Mix(epoch ^ 0xD1B54A32D192ED03u)) {
  assert(n <= kMaxSize);
  // For every n this is a bijection of (seed, epoch), so no two epochs have the same key.
  key_low_ += Mix(key_high_ ^ n);
  key_high_ += Mix(key_low_);
  key_low_ += Mix(key_high_);
  if (n <= kMaxShuffled) {
    for (std::uint64_t i = 0; i < n; ++i) {
      // A number in [0, i]. The bias of the multiplication is below 2^-58.
      const std::uint64_t j = High(Uint128{Word(i)} * (i + 1));
      shuffled_[i] = shuffled_[j];
      shuffled_[j] = static_cast<std::uint8_t>(i);
    }
    return;
  }
  a_ = CeilSqrt(n);
  b_ = (n + a_ - 1) / a_;
  reciprocal_ = ~std::uint64_t{0} / b_;
  rounds_ = n < kFewRoundsFrom ? kMaxRounds : 8;
  for (std::size_t i = 0; i < rounds_; ++i) keys_[i] = Word(i);
}

std::uint64_t Permutation::operator()(std::uint64_t place) const {
  assert(place < n_);
  if (n_ <= kMaxShuffled) return shuffled_[place];
  std::uint64_t x = place;
  do x = Forward(x);
  while (x >= n_);
  return x;
}

std::uint64_t Permutation::Inverse(std::uint64_t value) const {
  assert(value < n_);
  if (n_ <= kMaxShuffled) {
    std::uint64_t place = 0;
    while (shuffled_[place] != value) ++place;
    return place;
  }
  std::uint64_t x = value;
  do x = Backward(x);
  while (x >= n_);
  return x;
}

std::uint64_t Permutation::Word(std::uint64_t i) const {
  return Mix(key_high_ + Mix(key_low_ + i * kGolden));
}

std::uint64_t Permutation::Forward(std::uint64_t x) const {
  auto [left, right] = Divide(x, b_, reciprocal_);
  for (std::size_t i = 0; i < rounds_; i += 2) {
    left = AddModulo(left, Round(right, keys_[i], a_), a_);
    right = AddModulo(right, Round(left, keys_[i + 1], b_), b_);
  }
  return left * b_ + right;
}

std::uint64_t Permutation::Backward(std::uint64_t x) const {
  auto [left, right] = Divide(x, b_, reciprocal_);
  for (std::size_t i = rounds_; i > 0; i -= 2) {
    right = SubtractModulo(right, Round(left, keys_[i - 1], b_), b_);
    left = SubtractModulo(left, Round(right, keys_[i - 2], a_), a_);
  }
  return left * b_ + right;
}

}  // namespace millrace
