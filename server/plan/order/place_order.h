// The orders whose unit is an example and that have every row once per epoch: the plain order,
// which shuffles all rows, and the block order, which shuffles blocks of neighbours and then the
// rows of some blocks at a time. A block order reads a dataset nearly in sequence, so that a disk
// reads each byte about once.
//
// A PlaceOrder is an immutable value and thread-safe. A PlaceReader belongs to one thread.
#pragma once

#include <cstdint>
#include <optional>

#include "server/plan/order/runs.h"
#include "server/source/keyed_order.h"
#include "server/source/order.h"

namespace millrace {

class PlaceOrder {
 public:
  /// The plain order of `n` rows. REQUIRES: n <= Permutation::kMaxSize.
  PlaceOrder(std::uint64_t n, const OrderSeed& seed) : n_(n), seed_(seed) {}
  /// The block order: blocks of `block` rows (the last one may be shorter), and windows of at most
  /// `window` blocks. REQUIRES: block > 0, window > 0.
  PlaceOrder(std::uint64_t n, const OrderSeed& seed, std::uint64_t block, std::uint64_t window);

  /// Number of rows, and of places.
  std::uint64_t size() const { return n_; }
  /// Number of windows of an epoch; 0 for the plain order.
  std::uint64_t windows() const { return windows_; }

 private:
  friend class PlaceReader;

  std::uint64_t n_;
  OrderSeed seed_;
  std::optional<Runs> blocks_;  // nullopt for the plain order
  std::uint64_t windows_ = 0;
};

/// Reads an order, at any places. Neighbouring places of one epoch are cheapest.
class PlaceReader {
 public:
  /// Keeps a copy of the order.
  explicit PlaceReader(PlaceOrder order) : order_(std::move(order)) {}
  PlaceReader(const PlaceReader&) = delete;
  PlaceReader& operator=(const PlaceReader&) = delete;

  const PlaceOrder& order() const { return order_; }
  /// The row at a place of an epoch. REQUIRES: place < size().
  std::uint64_t At(std::uint64_t epoch, std::uint64_t place) {
    SetEpoch(epoch);
    return order_.blocks_ ? AtOfBlocks(place) : (*rows_)(place);
  }
  /// The place of a row. REQUIRES: row < size().
  std::uint64_t PlaceOf(std::uint64_t epoch, std::uint64_t row);

 private:
  /// A window of an epoch: its first place, the place after its last, and the order of its rows.
  struct Window {
    std::uint64_t begin;
    std::uint64_t end;
    KeyedOrder order;
  };

  void SetEpoch(std::uint64_t epoch) {
    if (epoch_ != epoch) BeginEpoch(epoch);
  }
  void BeginEpoch(std::uint64_t epoch);
  std::uint64_t AtOfBlocks(std::uint64_t place);
  /// The window of a place. REQUIRES: a block order.
  const Window& WindowOf(std::uint64_t place);

  PlaceOrder order_;
  std::optional<std::uint64_t> epoch_;  // whose state the members below hold
  std::optional<KeyedOrder> rows_;      // plain order
  std::optional<RunsOfEpoch> blocks_;   // block order
  std::optional<Window> window_;        // of the last place; block order
};

/// The order whose units are the places of a plain or block order.
class ExampleOrder final : public Order {
 public:
  explicit ExampleOrder(PlaceOrder order) : order_(std::move(order)) {}

  std::uint64_t units() const override { return order_.size(); }
  std::uint64_t rows() const override { return order_.size(); }
  bool unit_is_batch() const override { return false; }
  std::unique_ptr<OrderReader> NewReader() const override;

 private:
  PlaceOrder order_;
};

}  // namespace millrace
