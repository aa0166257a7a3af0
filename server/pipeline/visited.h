// Visited sets of a closure: which nodes are numbered, and with which number. Both give the same
// answers; StampedArray is faster and takes 4 bytes for every node of the data, StampedTable takes
// memory for the nodes of the largest example only.
//
// What is stored is base + number, where `base` moves on from example to example: what earlier
// examples left behind lies below it and counts as absent, so that nothing is cleared between them.
//
// Not thread-safe; one a thread. No allocation once the largest example has been seen.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <memory>
#include <new>
#include <vector>

namespace millrace {

namespace internal {

/// The moving base of the stamps. Stamps of an example are base … base + numbers - 1.
class MovingBase {
 public:
  /// Numbers that one example can have, at most.
  static constexpr std::uint32_t kMaxNumbers = 1u << 21;

  /// Moves on from an example with the numbers below `used`; true where the stamps have to be
  /// cleared now, once in about 2^32 nodes.
  bool Advance(std::uint32_t used) {
    if (std::numeric_limits<std::uint32_t>::max() - base_ < 2 * kMaxNumbers) {
      base_ = 1;
      return true;
    }
    base_ += used;
    return false;
  }
  std::uint32_t base() const { return base_; }

 private:
  std::uint32_t base_ = 1;
};

}  // namespace internal

/// One stamp for every node of the data.
class StampedArray {
 public:
  /// Where a node stands.
  using Place = std::uint32_t*;

  explicit StampedArray(std::uint64_t nodes)
      : nodes_(nodes),
        // Zero pages of the kernel: only what is touched takes memory.
        stamps_(static_cast<std::uint32_t*>(std::calloc(nodes + 1, sizeof(std::uint32_t)))) {
    if (stamps_ == nullptr) throw std::bad_alloc();
  }

  /// Forgets all nodes, which have been given the numbers below `used`.
  void Forget(std::uint32_t used) {
    if (moving_.Advance(used)) std::fill_n(stamps_.get(), nodes_, 0);
  }

  /// The set as a loop works on it: small, and to be held in the loop's own frame, so that its
  /// parts may stay in registers. One at a time.
  class Entered {
   public:
    explicit Entered(const StampedArray* set)
        : stamps_(set->stamps_.get()), base_(set->moving_.base()) {}

    /// REQUIRES: node < nodes.
    Place Find(std::uint64_t node) const { return stamps_ + node; }
    bool IsNumbered(Place place) const { return *place >= base_; }
    std::uint32_t Number(Place place) const { return *place - base_; }
    /// REQUIRES: place = Find(node), number is below MovingBase::kMaxNumbers.
    void Insert(std::uint64_t /*node*/, Place place, std::uint32_t number) {
      *place = base_ + number;
    }
    void Prefetch(std::uint64_t node) const { __builtin_prefetch(stamps_ + node); }

   private:
    std::uint32_t* stamps_;
    std::uint32_t base_;
  };
  Entered Enter() { return Entered(this); }

 private:
  struct Free {
    void operator()(std::uint32_t* p) const { std::free(p); }
  };
  std::uint64_t nodes_;
  std::unique_ptr<std::uint32_t[], Free> stamps_;
  internal::MovingBase moving_;
};

/// Open addressing with linear probing. Every example begins with a small part of the memory, so
/// that small examples stay in cache after a large one, and takes twice as much whenever that is
/// half full.
class StampedTable {
 public:
  using Place = std::size_t;

  explicit StampedTable(std::uint64_t /*nodes*/) : slots_(kSmallest) {}

  void Forget(std::uint32_t used) {
    if (moving_.Advance(used)) std::fill(slots_.begin(), slots_.end(), Slot{});
    UseSlots(kSmallest);
    count_ = 0;
  }

  /// As StampedArray::Entered. A Place is good until the next Insert.
  class Entered {
   public:
    explicit Entered(StampedTable* set) : set_(set) {}
    Place Find(std::uint64_t node) const { return set_->Find(node); }
    bool IsNumbered(Place place) const { return set_->IsNumbered(place); }
    std::uint32_t Number(Place place) const {
      return set_->slots_[place].stamp - set_->moving_.base();
    }
    void Insert(std::uint64_t node, Place place, std::uint32_t number) {
      set_->slots_[place] = {node, set_->moving_.base() + number};
      if (++set_->count_ * 2 > set_->mask_) set_->Grow();
    }
    void Prefetch(std::uint64_t node) const { __builtin_prefetch(&set_->slots_[set_->Home(node)]); }

   private:
    StampedTable* set_;
  };
  Entered Enter() { return Entered(this); }

 private:
  static constexpr std::size_t kSmallest = 4096;

  struct Slot {
    std::uint64_t node = 0;
    std::uint32_t stamp = 0;
  };

  Place Find(std::uint64_t node) const {
    Place place = Home(node);
    while (IsNumbered(place) && slots_[place].node != node) place = (place + 1) & mask_;
    return place;
  }
  bool IsNumbered(Place place) const { return slots_[place].stamp >= moving_.base(); }
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
  internal::MovingBase moving_;
};

}  // namespace millrace
