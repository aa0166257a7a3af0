// The order of a mix of branches by weights (`branches`, `mix`). An epoch is cut into blocks; in
// each whole block, every branch has exactly its share of the places, and these are shuffled. A
// branch is read in its own order. It is read once more from the beginning, in another order, each
// time that it ends, unless the epoch stops at the shortest branch.
//
// Immutable; thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "common/base/result.h"
#include "server/pipeline/order/order.h"
#include "server/pipeline/order/place_order.h"

namespace millrace {

/// How many of some slots each branch has. Exact in whole blocks; never falls as slots are added.
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

class MixOrder final : public Order {
 public:
  struct Options {
    std::vector<std::uint64_t> weights;  // of the branches
    std::uint64_t seed = 0;              // of the places of branches in a block
    // How many rows an epoch has; one of three:
    std::optional<std::uint64_t> rows;  // this many
    std::optional<std::size_t> all_of;  // so many that this branch comes whole
    bool shortest = false;              // so many that no row comes twice
  };

  /// `branches`: their own orders, with the seeds of branches. InvalidArgument if a branch has no
  /// rows, or if an epoch would have more than StepArithmetic::kMaxExamples rows.
  static Result<std::shared_ptr<const MixOrder>> Make(std::vector<PlaceOrder> branches,
                                                      const Options& options);

  std::uint64_t units() const override { return units_; }
  std::uint64_t rows() const override { return units_; }
  bool unit_is_batch() const override { return false; }
  std::unique_ptr<OrderReader> NewReader() const override;

  const MixShares& shares() const { return shares_; }
  /// How many rows an epoch has of each branch.
  const std::vector<std::uint64_t>& rows_of() const { return rows_of_; }

 private:
  class Reader;
  MixOrder(std::vector<PlaceOrder> branches, const Options& options, MixShares shares,
           std::uint64_t units);

  std::vector<PlaceOrder> branches_;
  std::uint64_t seed_;
  bool shortest_;
  MixShares shares_;
  std::uint64_t units_;
  std::vector<std::uint64_t> rows_of_;
};

}  // namespace millrace
