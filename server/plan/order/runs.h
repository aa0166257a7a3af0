// Lists that are cut into runs, and the order of all runs in an epoch. The last run of a list may
// be shorter than the others. Both directions take O(log(lists)), however long the lists are.
//
// Immutable; thread-safe. RunsOfEpoch refers to its Runs, which must outlive it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "server/source/keyed_order.h"

namespace millrace {

class Runs {
 public:
  /// Lists of `counts` items, cut into runs of `length`. An epoch has the order of `seed` for all
  /// runs, which are numbered list after list. REQUIRES: length > 0; together the lists have at
  /// most Permutation::kMaxSize items.
  Runs(std::span<const std::uint64_t> counts, std::uint64_t length, const OrderSeed& seed);

  /// Number of items of all lists.
  std::uint64_t items() const { return items_; }
  /// Number of runs of all lists.
  std::uint64_t runs() const { return first_runs_.back(); }

 private:
  friend class RunsOfEpoch;
  /// A run that is shorter than the others.
  struct ShortRun {
    std::uint64_t run;
    std::uint64_t lack;  // number of missing items
  };

  std::uint64_t length_;
  OrderSeed seed_;
  std::uint64_t items_ = 0;
  std::vector<std::uint64_t> first_runs_;  // number of the first run of each list, then of all runs
  std::vector<ShortRun> short_runs_;
};

/// The items in the order of one epoch. Slot i of an epoch holds the i-th run of its order; slots
/// follow one another.
class RunsOfEpoch {
 public:
  RunsOfEpoch(const Runs& runs, std::uint64_t epoch);

  struct Item {
    std::size_t list = 0;
    std::uint64_t number = 0;  // in the list
  };
  /// REQUIRES: place < items().
  Item At(std::uint64_t place) const;
  /// REQUIRES: the list has the item.
  std::uint64_t PlaceOf(const Item& item) const;

  /// The slot of a place. REQUIRES: place < items().
  std::uint64_t SlotOf(std::uint64_t place) const { return SlotAndOffset(place).slot; }
  /// The place at which a slot begins. REQUIRES: slot <= runs().
  std::uint64_t StartOf(std::uint64_t slot) const;

 private:
  struct SlotOffset {
    std::uint64_t slot;
    std::uint64_t offset;
  };
  /// A slot with a short run.
  struct Gap {
    std::uint64_t slot;
    std::uint64_t end;   // the place after its last item
    std::uint64_t lack;  // number of items missing in this slot and the slots before it
  };
  SlotOffset SlotAndOffset(std::uint64_t place) const;

  const Runs* runs_;
  KeyedOrder order_;
  std::vector<Gap> gaps_;  // by slot
};

}  // namespace millrace
