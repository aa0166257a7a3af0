// Ascending numbers in 2 + log2(n / m) bits each and a tenth, for m numbers below n, with random
// access.
//
// The low bits of each number, log2(n / m) of them, are stored side by side. The high bits, which
// ascend slowly, are a set: number i with high bits h is the member h + i, so that each number
// costs one bit and each step of h another. (P. Elias, "Efficient storage and retrieval by content
// and address of static files", JACM 21, 1974; R. Fano, "On the number of bits required to
// implement an associative memory", MIT Project MAC memo 61, 1971; S. Vigna, "Quasi-succinct
// indices", WSDM 2013.)
//
// Filled, then sealed; after that it is immutable and thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "server/source/ranked_bitmap.h"

namespace millrace {

class EliasFano {
 public:
  /// Room for `capacity` numbers below `limit`. REQUIRES: capacity <= limit.
  EliasFano(std::uint64_t limit, std::uint64_t capacity);

  /// REQUIRES: !full(), Seal not called, number < limit and above the number before.
  void Append(std::uint64_t number) {
    high_.Set((number >> low_width_) + size_);
    const std::uint64_t bit = size_ * low_width_;
    const std::uint64_t low = number & low_mask_;
    low_[bit / 64] |= low << (bit % 64);
    low_[bit / 64 + 1] |= low >> 1 >> (63 - bit % 64);
    ++size_;
  }
  bool full() const { return size_ == capacity_; }
  /// The numbers may be read from then on.
  void Seal() { high_.Seal(); }

  std::uint64_t size() const { return size_; }
  /// The number that has i numbers below it. REQUIRES: i < size().
  std::uint64_t Select(std::uint64_t i) const {
    const std::uint64_t low = Low(i);  // first, because it may have to come from memory
    return (high_.Select(i) - i) << low_width_ | low;
  }
  /// Replaces each i with Select(i). Reads of memory overlap: prefer it to many calls of Select.
  /// REQUIRES: as Select.
  void SelectAll(std::span<std::uint64_t> numbers) const;
  /// How many numbers are below `number`; nullopt if it is not one of them. Takes O(log limit).
  /// REQUIRES: number < limit.
  std::optional<std::uint64_t> Find(std::uint64_t number) const;

 private:
  std::uint64_t Low(std::uint64_t i) const {
    const std::uint64_t bit = i * low_width_;
    return (low_[bit / 64] >> (bit % 64) | low_[bit / 64 + 1] << 1 << (63 - bit % 64)) & low_mask_;
  }

  std::uint64_t capacity_;
  std::uint64_t size_ = 0;
  unsigned low_width_;
  std::uint64_t low_mask_;
  RankedBitmap high_;
  std::vector<std::uint64_t> low_;  // one word more than needed, so that two can always be read
};

}  // namespace millrace
