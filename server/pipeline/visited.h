// Visited sets of a closure: which nodes are numbered, and with which number. Both give the same
// answers; StampedArray is faster and takes 4 bytes for every node of the data, StampedTable takes
// memory for the nodes of the largest example only.
//
// What is stored is base + number, where `base` moves on from example to example: what earlier
// examples left behind lies below it and counts as absent, so that nothing is cleared between them.
//
// Not thread-safe; one a thread. No allocation once the largest example has been seen.
#pragma once

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

/// The moving base of the stamps. Stamps of the current example are base … base + numbers - 1.
class MovingBase {
 public:
  /// Numbers that one example can have.
  static constexpr std::uint32_t kMaxNumbers = 1u << 21;

  /// Moves on; true where the stamps have to be cleared first, once in about 2^32 nodes.
  bool Advance() {
    if (std::numeric_limits<std::uint32_t>::max() - base_ < 2 * kMaxNumbers) {
      base_ = 1;
      used_ = 0;
      return true;
    }
    base_ += used_;
    used_ = 0;
    return false;
  }
  std::uint32_t Stamp(std::uint32_t number) {
    used_ = number >= used_ ? number + 1 : used_;
    return base_ + number;
  }
  std::uint32_t base() const { return base_; }

 private:
  std::uint32_t base_ = 1;
  std::uint32_t used_ = 0;
};

}  // namespace internal

/// One stamp for every node of the data.
class StampedArray {
 public:
  /// Where a node stands. Valid until the next Insert.
  using Place = std::uint32_t*;

  explicit StampedArray(std::uint64_t nodes)
      : nodes_(nodes),
        // Zero pages of the kernel: only what is touched takes memory.
        stamps_(static_cast<std::uint32_t*>(std::calloc(nodes + 1, sizeof(std::uint32_t)))) {
    if (stamps_ == nullptr) throw std::bad_alloc();
  }

  /// Forgets all nodes.
  void Begin() {
    if (moving_.Advance()) {
      for (std::uint64_t i = 0; i < nodes_; ++i) stamps_[i] = 0;
    }
  }
  /// REQUIRES: node < nodes.
  Place Find(std::uint64_t node) { return &stamps_[node]; }
  bool IsNumbered(Place place) const { return *place >= moving_.base(); }
  std::uint32_t Number(Place place) const { return *place - moving_.base(); }
  /// REQUIRES: place = Find(node), number below MovingBase::kMaxNumbers.
  void Insert(std::uint64_t /*node*/, Place place, std::uint32_t number) {
    *place = moving_.Stamp(number);
  }
  void Prefetch(std::uint64_t node) const { __builtin_prefetch(&stamps_[node]); }

 private:
  struct Free {
    void operator()(std::uint32_t* p) const { std::free(p); }
  };
  std::uint64_t nodes_;
  std::unique_ptr<std::uint32_t[], Free> stamps_;
  internal::MovingBase moving_;
};

/// Open addressing with linear probing. Every example begins with a small part of the memory, so that
/// small examples stay in cache after a large one, and takes twice as much whenever that is half full.
class StampedTable {
 public:
  using Place = std::size_t;

  explicit StampedTable(std::uint64_t /*nodes*/) : slots_(kSmallest) {}

  void Begin() {
    if (moving_.Advance()) slots_.assign(slots_.size(), Slot{});
    UseSlots(kSmallest);
    count_ = 0;
  }
  Place Find(std::uint64_t node) const {
    Place place = Home(node);
    while (slots_[place].stamp >= moving_.base() && slots_[place].node != node) {
      place = (place + 1) & mask_;
    }
    return place;
  }
  bool IsNumbered(Place place) const { return slots_[place].stamp >= moving_.base(); }
  std::uint32_t Number(Place place) const { return slots_[place].stamp - moving_.base(); }
  void Insert(std::uint64_t node, Place place, std::uint32_t number) {
    count_ += IsNumbered(place) ? 0 : 1;
    slots_[place] = {node, moving_.Stamp(number)};
    if (count_ * 2 > mask_) Grow();
  }
  void Prefetch(std::uint64_t node) const { __builtin_prefetch(&slots_[Home(node)]); }

 private:
  static constexpr std::size_t kSmallest = 4096;

  struct Slot {
    std::uint64_t node = 0;
    std::uint32_t stamp = 0;
  };

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
