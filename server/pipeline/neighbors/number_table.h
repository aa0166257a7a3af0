// The numbers that nodes have in a graph, by open addressing with linear probing. It has room for
// four times the nodes of the graph, so that few probes meet another node; and not for all nodes of
// the data, so that its lines stay in the processor's nearer caches while entries of rows pass
// through them.
//
// Not thread-safe: a table belongs to a thread. It allocates nothing once it has seen the largest
// graph.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/base/ask_for_line.h"
#include "server/pipeline/closure/moving_base.h"

namespace millrace {

/// Node: an unsigned integer.
template <class Node>
class NumberTable {
  struct Slot {
    Node node = 0;
    std::uint32_t stamp = 0;
  };

 public:
  /// `most_nodes`: of a graph; at most 2^30.
  explicit NumberTable(std::uint32_t most_nodes) : slots_(kFewestSlots), moving_(most_nodes) {}

  /// Forgets all nodes, and expects about as many again. REQUIRES: their numbers are below `used`.
  void Forget(std::uint32_t used) {
    if (moving_.Advance(used)) std::fill(slots_.begin(), slots_.end(), Slot{});
    UseSlots(std::min(slots_.size(), SlotsFor(used)));
  }

  /// Has to be called before nodes are added. `nodes`: how many the graph has then, at most.
  void Reserve(std::size_t nodes) {
    if (SlotsFor(nodes) > mask_ + 1) Grow(SlotsFor(nodes));
  }

  /// The table in the form that a loop uses. It is small and lives in the loop's own frame, so that
  /// its parts can stay in registers. Ends when the table changes in another way.
  class Entered {
   public:
    explicit Entered(NumberTable* table)
        : slots_(table->slots_.data()),
          mask_(table->mask_),
          shift_(table->shift_),
          base_(table->moving_.base()) {}

    /// Gives a node the number `next` if it has none. Returns whether that was so, and sets *number
    /// to the node's number.
    bool Add(Node node, std::uint32_t next, std::uint32_t* number) {
      Slot& slot = slots_[PlaceOf(node)];
      const bool is_new = slot.stamp < base_;
      // The stamp of an empty slot is below the base. The difference then wraps round to more than
      // `next` can be, so the minimum is `next`.
      const std::uint32_t given = std::min(slot.stamp - base_, next);
      slot = {node, base_ + given};
      *number = given;
      return is_new;
    }
    /// Sets *number to the node's number. False if it has none.
    bool Find(Node node, std::uint32_t* number) const {
      const Slot& slot = slots_[PlaceOf(node)];
      *number = slot.stamp - base_;
      return slot.stamp >= base_;
    }
    /// Asks the processor for what Add and Find of a node read.
    void Ask(Node node) const { AskForNearLine(slots_ + Home(node)); }

   private:
    /// The slot where the node lies, or where it would be put.
    std::size_t PlaceOf(Node node) const {
      std::size_t place = Home(node);
      while (IsOther(slots_[place], node)) [[unlikely]] place = (place + 1) & mask_;
      return place;
    }
    /// Whether another node lies in the slot. That a slot is in use, and that its node is this one,
    /// is as likely as not, and a branch for each would often be foreseen wrongly. So both are
    /// computed without one: compilers make branches of `&` between comparisons.
    bool IsOther(const Slot& slot, Node node) const {
      const Node differs = slot.node ^ node;
      const Node highest = (differs | (Node{0} - differs)) >> (8 * sizeof(Node) - 1);
      return (highest & Node{slot.stamp >= base_}) != 0;
    }
    std::size_t Home(Node node) const {
      return static_cast<std::size_t>(node * std::uint64_t{0x9E3779B97F4A7C15u} >> shift_);
    }

    Slot* slots_;
    std::size_t mask_;
    int shift_;
    std::uint32_t base_;
  };
  Entered Enter() { return Entered(this); }

 private:
  static constexpr std::size_t kFewestSlots = 1024;

  static std::size_t SlotsFor(std::size_t nodes) {
    return std::bit_ceil(std::max(kFewestSlots, 4 * nodes));
  }
  void UseSlots(std::size_t slots) {
    mask_ = slots - 1;
    shift_ = 64 - std::countr_zero(slots);
  }
  void Grow(std::size_t slots) {
    moved_.clear();
    for (std::size_t place = 0; place <= mask_; ++place) {
      if (slots_[place].stamp < moving_.base()) continue;
      moved_.push_back(slots_[place]);
      slots_[place].stamp = 0;
    }
    if (slots_.size() < slots) slots_.resize(slots);
    UseSlots(slots);
    Entered grown = Enter();
    std::uint32_t number;
    for (const Slot& slot : moved_) grown.Add(slot.node, slot.stamp - moving_.base(), &number);
  }

  std::vector<Slot> slots_;  // the first mask_ + 1 of them are in use
  std::vector<Slot> moved_;  // scratch of Grow
  std::size_t mask_ = kFewestSlots - 1;
  int shift_ = 64 - std::countr_zero(kFewestSlots);
  MovingBase moving_;
};

}  // namespace millrace
