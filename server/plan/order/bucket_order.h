// The order whose units are batches of one class each (`batch.bucket`). All batches of all classes
// are shuffled, and so are the rows of each class. `together` keeps runs of batches of one class
// side by side, so that ranks that work at the same step get batches of one shape.
//
// Immutable; thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "server/plan/order/classes.h"
#include "server/plan/order/runs.h"
#include "server/source/keyed_order.h"
#include "server/source/order.h"

namespace millrace {

class BucketOrder final : public Order {
 public:
  struct Options {
    std::vector<std::uint32_t> sizes;  // rows of a batch of each class; each above 0
    bool keep = false;                 // whether a class's last, smaller batch is kept
    std::uint64_t together = 1;        // batches of a class that stay side by side; above 0
    OrderSeed seed;
  };

  /// REQUIRES: `options.sizes` has a size for each class.
  BucketOrder(std::shared_ptr<const Classes> classes, Options options);

  std::uint64_t units() const override { return batches_.items(); }
  std::uint64_t rows() const override { return rows_; }
  bool unit_is_batch() const override { return true; }
  std::uint32_t max_rows() const override { return max_rows_; }
  bool HasRow(OrderRow row) const override { return classes_->ClassOf(row.row).has_value(); }
  std::unique_ptr<OrderReader> NewReader() const override;

  const Classes& classes() const { return *classes_; }
  /// Rows of a whole batch of a class.
  std::uint32_t size_of(std::size_t c) const { return options_.sizes[c]; }
  /// Batches that an epoch has of a class.
  std::uint64_t batches_of(std::size_t c) const { return counts_[c]; }

 private:
  class Reader;

  std::shared_ptr<const Classes> classes_;
  Options options_;
  std::vector<std::uint64_t> counts_;  // batches of each class
  Runs batches_;
  std::uint64_t rows_ = 0;
  std::uint32_t max_rows_ = 0;
};

}  // namespace millrace
