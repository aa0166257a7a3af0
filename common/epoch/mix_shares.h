// How the places of an epoch are divided among the branches of a mix, by weights
// (docs/guides/orders.md).
//
// Immutable value type.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace millrace {

/// The share of each branch in a number of slots. Exact in whole blocks; never falls as slots are
/// added.
class MixShares {
 public:
  static constexpr std::uint64_t kMaxWeight = std::uint64_t{1} << 20;

  /// REQUIRES: weights are from 1 to kMaxWeight; there are at most 2^20 of them, and at least one.
  explicit MixShares(std::span<const std::uint64_t> weights);

  std::size_t branches() const { return weights_.size(); }
  /// Slots of a whole block.
  std::uint64_t block() const { return block_; }
  /// A branch's slots of a whole block.
  std::uint64_t OfBlock(std::size_t branch) const { return block_ / sum_ * weights_[branch]; }
  /// Sum of the weights, after division by their greatest common divisor.
  std::uint64_t sum() const { return sum_; }
  /// The slots of each branch, of `slots`.
  std::vector<std::uint64_t> Of(std::uint64_t slots) const;

 private:
  std::vector<std::uint64_t> weights_;
  std::uint64_t sum_ = 0;
  std::uint64_t block_ = 0;
};

}  // namespace millrace
