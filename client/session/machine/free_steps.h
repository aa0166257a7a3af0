// The steps of a session that are free: neither held nor asked of a worker.
//
// A bit for each step from the loop's next one to the last one that was ever taken says whether it
// is free. All steps behind these are free. Dealing looks at most a few thousand steps ahead, so
// the free step that comes after many others is found with a few dozen counts of bits.
//
// Not thread-safe: part of the session's state machine.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <deque>

namespace millrace::client {

class FreeSteps {
 public:
  /// The first `next` steps are past, and not free.
  void Pass(std::uint64_t next) {
    begin_ = std::max(begin_, next);
    for (; first_ + kBits <= begin_; first_ += kBits) {
      if (taken_.empty()) {
        first_ = begin_ / kBits * kBits;
        return;
      }
      taken_.pop_front();
    }
  }
  /// The step is free no longer. Steps that are past may be taken, too.
  void Take(std::uint64_t step) {
    if (step < begin_) return;
    const std::uint64_t word = (step - first_) / kBits;
    if (word >= taken_.size()) taken_.resize(word + 1);
    taken_[word] |= Bit(step);
  }
  /// The step is free again, unless it is past.
  void Free(std::uint64_t step) {
    if (step < begin_ || (step - first_) / kBits >= taken_.size()) return;
    taken_[(step - first_) / kBits] &= ~Bit(step);
  }

  bool IsFree(std::uint64_t step) const {
    if (step < begin_) return false;
    const std::uint64_t word = (step - first_) / kBits;
    return word >= taken_.size() || (taken_[word] & Bit(step)) == 0;
  }
  /// The free step that comes after `skipped` others.
  std::uint64_t At(std::uint64_t skipped) const {
    for (std::uint64_t word = 0; word < taken_.size(); ++word) {
      std::uint64_t free = FreeBits(word);
      const auto count = static_cast<std::uint64_t>(std::popcount(free));
      if (skipped >= count) {
        skipped -= count;
        continue;
      }
      for (; skipped > 0; --skipped) free &= free - 1;
      return first_ + word * kBits + static_cast<std::uint64_t>(std::countr_zero(free));
    }
    return std::max(begin_, first_ + taken_.size() * kBits) + skipped;
  }

 private:
  static constexpr std::uint64_t kBits = 64;

  static std::uint64_t Bit(std::uint64_t step) { return std::uint64_t{1} << step % kBits; }
  std::uint64_t FreeBits(std::uint64_t word) const {
    const std::uint64_t past = word == 0 ? Bit(begin_) - 1 : 0;
    return ~(taken_[word] | past);
  }

  std::uint64_t begin_ = 0;
  std::uint64_t first_ = 0;  // the step of the first bit: in the word of begin_
  std::deque<std::uint64_t> taken_;
};

}  // namespace millrace::client
