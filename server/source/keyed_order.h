// The randomness of an order: a seed for each purpose, and the keyed bijections that they choose. A
// pipeline without `shuffle` has no seed. All its orders are the identity.
//
// Value types; thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "common/epoch/permutation.h"

namespace millrace {

/// The seed of an order; nullopt: rows keep their order.
using OrderSeed = std::optional<std::uint64_t>;

/// The seed of an order for one purpose, such as a class or a window: XXH3-64 (seed 0) of the text
/// "<seed>/<purpose>/<number>". nullopt if there is no seed. Part of `semantics: 1`.
OrderSeed DeriveSeed(const OrderSeed& seed, std::string_view purpose, std::uint64_t number);

/// A bijection of [0, n): the permutation of a seed and an epoch, or the identity.
class KeyedOrder {
 public:
  /// REQUIRES: n <= Permutation::kMaxSize.
  KeyedOrder(const OrderSeed& seed, std::uint64_t epoch, std::uint64_t n) : size_(n) {
    if (seed) permutation_.emplace(*seed, epoch, n);
  }

  std::uint64_t size() const { return size_; }
  /// REQUIRES: place < size().
  std::uint64_t operator()(std::uint64_t place) const {
    return permutation_ ? (*permutation_)(place) : place;
  }
  /// REQUIRES: value < size().
  std::uint64_t Inverse(std::uint64_t value) const {
    return permutation_ ? permutation_->Inverse(value) : value;
  }

 private:
  std::uint64_t size_;
  std::optional<Permutation> permutation_;
};

}  // namespace millrace
