// An order says which rows each unit of an epoch holds, and where a row occurs. Rows are numbers of
// selected examples (selection.h), or of selected examples of a branch. Steps count units: single
// rows, or whole batches. An order is computed and never stored: any unit of any epoch is reached
// at once. docs/guides/orders.md has the uses of the forms; the rules belong to `semantics: 1`, so
// their results must not change.
//
// An Order is immutable and thread-safe. An OrderReader keeps state that the last units share; it
// belongs to one thread and must not outlive its order.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "common/epoch/position.h"

namespace millrace {

/// The largest value that an order may cut or balance by.
inline constexpr std::uint64_t kMaxOrderValue = std::uint64_t{1} << 40;

/// A selected example.
struct OrderRow {
  std::uint64_t row = 0;     // its number among the selected examples of its branch
  std::uint32_t branch = 0;  // always 0 if the pipeline has no branches
  std::uint64_t pass = 0;    // over the branch, in which it occurs; 0 unless Order::has_passes
  /// Whether they are the same row, in whatever pass.
  friend bool operator==(const OrderRow& a, const OrderRow& b) {
    return a.row == b.row && a.branch == b.branch;
  }
};

/// A place in an epoch.
struct UnitRow {
  std::uint64_t unit = 0;
  std::uint32_t row = 0;  // in the unit
  friend constexpr auto operator<=>(const UnitRow&, const UnitRow&) = default;
};

class OrderReader {
 public:
  virtual ~OrderReader() = default;

  /// Appends the rows of consecutive units, in their order. REQUIRES: the epoch has these units.
  virtual void Rows(std::uint64_t epoch, ExampleRange units, std::vector<OrderRow>& rows) = 0;
  /// Appends every place of a row in an epoch; no place if this epoch leaves it out. REQUIRES: the
  /// order has the row.
  virtual void Places(std::uint64_t epoch, OrderRow row, std::vector<UnitRow>& places) = 0;
};

class Order {
 public:
  virtual ~Order() = default;

  /// Number of units, the same in every epoch.
  virtual std::uint64_t units() const = 0;
  /// Number of rows of all units of an epoch, the same in every epoch.
  virtual std::uint64_t rows() const = 0;
  /// Whether a unit is a whole batch. A rank then takes one unit per step.
  virtual bool unit_is_batch() const = 0;
  /// Whether rows belong to passes (OrderRow::pass), which may end within an epoch. Otherwise each
  /// epoch is a pass, and all its rows belong to it.
  virtual bool has_passes() const { return false; }
  /// The most rows that a unit has.
  virtual std::uint32_t max_rows() const { return 1; }
  /// Whether some epoch may have the row: not if it is in no bucket. REQUIRES: a selected row.
  virtual bool HasRow(OrderRow /*row*/) const { return true; }
  virtual std::unique_ptr<OrderReader> NewReader() const = 0;
};

}  // namespace millrace
