// The rows that have room left, by their room; of rows with equal rooms the one with the lowest
// number comes first. A pairing heap for each room (Fredman, Sedgewick, Sleator, Tarjan, "The
// pairing heap: a new form of self-adjusting heap", Algorithmica 1, 1986), linked through arrays:
// nothing is allocated for a row, O(1) to add one, O(log rows) amortised to take one.
//
// Not thread-safe.
#pragma once

#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "server/plan/pack/number_set.h"

namespace millrace {

class RowHeaps {
 public:
  static constexpr std::uint32_t kNone = NumberSet::kNone;

  /// Rooms are below `limit`.
  explicit RowHeaps(std::uint32_t limit) : rooms_(limit), first_(limit, kNone) {}

  /// Takes all rows out, and makes room for rows below `rows`.
  void Reset(std::uint32_t rows) {
    for (std::uint32_t room = rooms_.Next(0); room != kNone; room = rooms_.Next(room)) {
      first_[room] = kNone;
      rooms_.Erase(room);
    }
    child_.resize(rows);
    sibling_.resize(rows);
  }

  /// The least room that is at least `room` and that a row has; kNone if no row has such a room.
  std::uint32_t LeastRoom(std::uint32_t room) const { return rooms_.Next(room); }
  /// Whether a row has this room.
  bool Has(std::uint32_t room) const { return first_[room] != kNone; }

  /// REQUIRES: the row is in no heap.
  void Add(std::uint32_t room, std::uint32_t row) {
    child_[row] = kNone;
    std::uint32_t& first = first_[room];
    if (first == kNone) {
      first = row;
      rooms_.Insert(room);
    } else {
      first = Join(first, row);
    }
  }

  /// Takes out the row with the lowest number of those with this room. REQUIRES: Has(room).
  std::uint32_t TakeFirst(std::uint32_t room) {
    const std::uint32_t taken = first_[room];
    first_[room] = JoinAll(child_[taken]);
    if (first_[room] == kNone) rooms_.Erase(room);
    return taken;
  }

 private:
  /// Joins two heaps; the result is the first of both.
  std::uint32_t Join(std::uint32_t a, std::uint32_t b) {
    if (b < a) std::swap(a, b);
    sibling_[b] = child_[a];
    child_[a] = b;
    return a;
  }

  /// Joins heaps that are a list of siblings: in pairs, then the pairs from the last to the first.
  std::uint32_t JoinAll(std::uint32_t list) {
    std::uint32_t pairs = kNone;  // the last pair first
    while (list != kNone) {
      const std::uint32_t a = list;
      const std::uint32_t b = sibling_[a];
      list = b == kNone ? kNone : sibling_[b];
      const std::uint32_t pair = b == kNone ? a : Join(a, b);
      sibling_[pair] = pairs;
      pairs = pair;
    }
    std::uint32_t joined = kNone;
    while (pairs != kNone) {
      const std::uint32_t next = sibling_[pairs];
      joined = joined == kNone ? pairs : Join(joined, pairs);
      pairs = next;
    }
    return joined;
  }

  NumberSet rooms_;                   // that a row has
  std::vector<std::uint32_t> first_;  // by room: the top of its heap
  std::vector<std::uint32_t> child_;  // by row: the first of its children
  std::vector<std::uint32_t> sibling_;
};

}  // namespace millrace
