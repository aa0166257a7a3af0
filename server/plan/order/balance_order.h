// The order whose units are batches of about equal sums of a value (`balance`). The rows of some
// neighbouring batches of a plain or block order, a group, are dealt anew to these batches: the
// largest first, each to the batch with the least sum (R. Graham, "Bounds on Multiprocessing Timing
// Anomalies", SIAM J. Appl. Math. 17, 1969: LPT), so long as it is not full. A batch is a function
// of its unit alone, whatever the world size.
//
// Immutable except for the groups that were dealt last, which it keeps for all its readers;
// thread-safe.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <utility>
#include <vector>

#include "common/system/mutex.h"
#include "server/plan/order/place_order.h"
#include "server/plan/order/row_values.h"
#include "server/source/order.h"

namespace millrace {

class BalanceOrder final : public Order {
 public:
  struct Options {
    std::uint32_t size = 0;    // rows of a batch; above 0
    std::uint64_t group = 64;  // batches that share their rows; above 0
    bool keep = false;         // whether the last, smaller batch is kept
  };

  BalanceOrder(PlaceOrder order, std::shared_ptr<const RowValues> values, const Options& options);
  ~BalanceOrder() override;

  std::uint64_t units() const override { return units_; }
  std::uint64_t rows() const override {
    return options_.keep ? order_.size() : units_ * options_.size;
  }
  bool unit_is_batch() const override { return true; }
  std::uint32_t max_rows() const override { return options_.size; }
  std::unique_ptr<OrderReader> NewReader() const override;

 private:
  class Reader;
  /// The rows of a group's batches, one batch after the other.
  struct Dealt {
    std::vector<std::uint64_t> rows;
    std::vector<std::size_t> begins;  // of each batch, then the number of all rows
  };
  struct GroupKey {
    std::uint64_t epoch;
    std::uint64_t group;
    friend bool operator==(const GroupKey&, const GroupKey&) = default;
  };
  /// How many dealt groups are kept. Ranks of one job, and jobs at other places, each read another
  /// group.
  static constexpr std::size_t kKept = 16;

  /// The group, kept or dealt now.
  std::shared_ptr<const Dealt> GroupOf(const GroupKey& key, PlaceReader& places) const;
  Dealt Deal(const GroupKey& key, PlaceReader& places) const;
  /// Number of batches of a group.
  std::uint64_t BatchesOf(std::uint64_t group) const;

  const PlaceOrder order_;
  const std::shared_ptr<const RowValues> values_;
  const Options options_;
  const std::uint64_t units_;
  mutable Mutex mutex_;
  // The group that was read last comes first.
  mutable std::list<std::pair<GroupKey, std::shared_ptr<const Dealt>>> kept_
      MILLRACE_GUARDED_BY(mutex_);
};

}  // namespace millrace
