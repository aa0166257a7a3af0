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
#include <vector>

#include "common/base/result.h"
#include "common/epoch/mix_shares.h"
#include "server/plan/order/place_order.h"
#include "server/source/order.h"

namespace millrace {

class MixOrder final : public Order {
 public:
  struct Options {
    std::vector<std::uint64_t> weights;  // of the branches
    std::uint64_t seed = 0;              // of the places of branches in a block
    // How many rows an epoch has; one of three:
    std::optional<std::uint64_t> rows;  // this many
    std::optional<std::size_t> all_of;  // so many that this branch occurs whole
    bool shortest = false;              // so many that no row occurs twice
  };

  /// `branches`: their own orders, with the seeds of branches. InvalidArgument if a branch has no
  /// rows, or if an epoch would have more than StepArithmetic::kMaxExamples rows.
  static Result<std::shared_ptr<const MixOrder>> Make(std::vector<PlaceOrder> branches,
                                                      const Options& options);

  std::uint64_t units() const override { return units_; }
  std::uint64_t rows() const override { return units_; }
  bool unit_is_batch() const override { return false; }
  bool has_passes() const override { return true; }
  std::unique_ptr<OrderReader> NewReader() const override;

  const MixShares& shares() const { return shares_; }
  /// Number of rows of each branch in an epoch.
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
