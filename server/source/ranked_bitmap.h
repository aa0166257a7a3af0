// A set of numbers below n with rank and select. It takes 1.2 bits per number.
//
// A set is filled, then sealed; after that it is immutable and thread-safe.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace millrace {

class RankedBitmap {
 public:
  static constexpr std::size_t kAtOnce = 64;  // ranks whose reads overlap in SelectAll

  explicit RankedBitmap(std::uint64_t size = 0)
      : size_(size), words_((size / 64 / kWordsPerBlock + 1) * kWordsPerBlock, 0) {}

  /// REQUIRES: number < size(), Seal not called.
  void Set(std::uint64_t number) { words_[number / 64] |= std::uint64_t{1} << (number % 64); }
  /// Counts the members. The set may be read from then on.
  void Seal();

  std::uint64_t size() const { return size_; }
  /// Bit i % 64 of word i / 64 says whether i is a member.
  std::span<const std::uint64_t> words() const { return words_; }
  /// Number of members.
  std::uint64_t count() const { return count_; }
  bool Test(std::uint64_t number) const { return (words_[number / 64] >> (number % 64) & 1) != 0; }
  /// Number of members below `number`. REQUIRES: number <= size().
  std::uint64_t Rank(std::uint64_t number) const;
  /// The member that has `rank` members below it. REQUIRES: rank < count().
  std::uint64_t Select(std::uint64_t rank) const;
  /// Replaces each rank with Select(rank). Several times as fast as one after the other if the set
  /// is larger than the processor's cache, because the reads of many ranks overlap. REQUIRES: as
  /// Select.
  void SelectAll(std::span<std::uint64_t> ranks) const;
  /// The absent number with `rank` absent numbers below it. Slower than Select. REQUIRES: rank <
  /// size() - count().
  std::uint64_t SelectAbsent(std::uint64_t rank) const;
  /// The smallest member that is not below `number`. REQUIRES: such a member exists.
  std::uint64_t Next(std::uint64_t number) const;

 private:
  static constexpr std::uint64_t kWordsPerBlock = 8;
  static constexpr std::uint64_t kMembersPerSample = 512;

  /// Number of members (or absent numbers) before a block.
  template <bool kMembers>
  std::uint64_t Before(std::uint64_t block) const {
    return kMembers ? block_ranks_[block] : block * kWordsPerBlock * 64 - block_ranks_[block];
  }
  /// The block, from `begin` to before `end`, that has the number with `rank` members (or absent
  /// numbers) below it.
  template <bool kMembers>
  std::uint64_t FindBlock(std::uint64_t begin, std::uint64_t end, std::uint64_t rank) const;
  /// The number with `rank` members (or absent numbers) below it, which is in `block`.
  template <bool kMembers>
  std::uint64_t SelectInBlock(std::uint64_t block, std::uint64_t rank) const;

  std::uint64_t size_;
  std::uint64_t count_ = 0;
  std::vector<std::uint64_t> words_;        // whole blocks
  std::vector<std::uint64_t> block_ranks_;  // number of members before each block
  // The block of each member whose rank is a multiple of kMembersPerSample, then the last block.
  std::vector<std::uint64_t> select_samples_;
};

}  // namespace millrace
