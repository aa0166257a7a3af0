// Visited sets of a closure: they say which nodes are numbered, and with which number. Both sets
// give the same answers. StampedArray is faster and takes 4 bytes for every node of the data;
// StampedTable takes memory only for the nodes of the largest example.
//
// Nothing has to be cleared between examples (moving_base.h).
//
// Not thread-safe; each thread needs its own. A set allocates nothing once it has seen the largest
// example.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <vector>

#include "server/sampling/moving_base.h"

namespace millrace {

/// One stamp for every node of the data.
class StampedArray {
 public:
  explicit StampedArray(std::uint64_t nodes)
      : nodes_(nodes),
        // The kernel gives pages of zeros: only touched pages take memory.
        stamps_(static_cast<std::uint32_t*>(std::calloc(nodes + 1, sizeof(std::uint32_t)))) {
    if (stamps_ == nullptr) throw std::bad_alloc();
  }

  /// Forgets all nodes. REQUIRES: their numbers are below `used`.
  void Forget(std::uint32_t used) {
    if (moving_.Advance(used)) std::fill_n(stamps_.get(), nodes_, 0);
  }

  /// The set in the form that a loop uses. It is small and lives in the loop's own frame, so that
  /// its parts can stay in registers. Only one object may exist at a time.
  class Entered {
   public:
    explicit Entered(const StampedArray* set)
        : stamps_(set->stamps_.get()), base_(set->moving_.base()) {}

    /// Returns whether the node has no number yet. *number is then `next`, otherwise the node's
    /// number. Takes no branch. REQUIRES: node < nodes; next is below MovingBase::kMaxNumbers.
    bool Number(std::uint64_t node, std::uint32_t next, std::uint32_t* number) const {
      // A node without a number has a stamp below the base. The difference then wraps round to more
      // than `next` can be, so the minimum is `next`.
      *number = std::min(stamps_[node] - base_, next);
      return *number == next;
    }
    void Set(std::uint64_t node, std::uint32_t number) { stamps_[node] = base_ + number; }
    std::uint32_t NumberOr(std::uint64_t node, std::uint32_t next) {
      std::uint32_t number;
      if (Number(node, next, &number)) Set(node, number);
      return number;
    }
    /// Gives the number of a node. False if it has no number. REQUIRES: node < nodes.
    bool Find(std::uint64_t node, std::uint32_t* number) const {
      *number = stamps_[node] - base_;
      return stamps_[node] >= base_;
    }

   private:
    std::uint32_t* stamps_;
    std::uint32_t base_;
  };
  Entered Enter() { return Entered(this); }
  bool Find(std::uint64_t node, std::uint32_t* number) const {
    return Entered(this).Find(node, number);
  }

 private:
  struct Free {
    void operator()(std::uint32_t* p) const { std::free(p); }
  };
  std::uint64_t nodes_;
  std::unique_ptr<std::uint32_t[], Free> stamps_;
  MovingBase moving_;
};

/// Open addressing with linear probing. Every example begins with a small part of the memory, so
/// that small examples stay in cache after a large one. When the part in use is half full, it
/// doubles.
class StampedTable {
 public:
  explicit StampedTable(std::uint64_t /*nodes*/) : slots_(kSmallest) {}

  void Forget(std::uint32_t used) {
    if (moving_.Advance(used)) std::fill(slots_.begin(), slots_.end(), Slot{});
    UseSlots(kSmallest);
    count_ = 0;
  }

  /// Same as StampedArray::Entered, but with branches.
  class Entered {
   public:
    explicit Entered(StampedTable* set) : set_(set) {}
    bool Number(std::uint64_t node, std::uint32_t next, std::uint32_t* number) const {
      if (set_->Find(node, number)) return false;
      *number = next;
      return true;
    }
    void Set(std::uint64_t node, std::uint32_t number) { set_->Set(node, number); }
    std::uint32_t NumberOr(std::uint64_t node, std::uint32_t next) {
      std::uint32_t number;
      if (Number(node, next, &number)) Set(node, number);
      return number;
    }
    bool Find(std::uint64_t node, std::uint32_t* number) const { return set_->Find(node, number); }

   private:
    StampedTable* set_;
  };
  Entered Enter() { return Entered(this); }
  bool Find(std::uint64_t node, std::uint32_t* number) const {
    const std::size_t place = PlaceOf(node);
    *number = slots_[place].stamp - moving_.base();
    return IsNumbered(place);
  }

 private:
  static constexpr std::size_t kSmallest = 1024;

  struct Slot {
    std::uint64_t node = 0;
    std::uint32_t stamp = 0;
  };

  void Set(std::uint64_t node, std::uint32_t number) {
    const std::size_t place = PlaceOf(node);
    const bool is_new = !IsNumbered(place);
    slots_[place] = {node, moving_.base() + number};
    if (is_new && ++count_ * 2 > mask_) Grow();
  }
  /// The slot of the node, or where it would be put.
  std::size_t PlaceOf(std::uint64_t node) const {
    std::size_t place = Home(node);
    while (IsNumbered(place) && slots_[place].node != node) place = (place + 1) & mask_;
    return place;
  }
  bool IsNumbered(std::size_t place) const { return slots_[place].stamp >= moving_.base(); }
  std::size_t Home(std::uint64_t node) const {
    return static_cast<std::size_t>(node * 0x9E3779B97F4A7C15u >> shift_);
  }
  void UseSlots(std::size_t slots) {
    mask_ = slots - 1;
    shift_ = 64 - std::countr_zero(slots);
  }
  void Grow();

  std::vector<Slot> slots_;
  std::vector<Slot> moved_;  // scratch of Grow
  std::size_t count_ = 0;
  std::size_t mask_ = kSmallest - 1;
  int shift_ = 64 - std::countr_zero(kSmallest);
  MovingBase moving_;
};

}  // namespace millrace
