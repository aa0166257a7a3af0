#include "server/source/ranked_bitmap.h"

#include <algorithm>
#include <array>

#include "common/base/ask_for_line.h"

namespace millrace {
namespace {

// Counts in the eight bytes of a word, without a branch that depends on them (S. Vigna, "Broadword
// implementation of rank/select queries", WEA 2008). The processors for which Millrace is built
// need not have an instruction that counts bits.
constexpr std::uint64_t kOnes = 0x0101010101010101;   // 1 in each byte
constexpr std::uint64_t kHighs = 0x8080808080808080;  // the highest bit of each byte

/// The number of set bits of each byte.
std::uint64_t CountsInBytes(std::uint64_t bits) {
  bits -= bits >> 1 & 0x5555555555555555;
  bits = (bits & 0x3333333333333333) + (bits >> 2 & 0x3333333333333333);
  return (bits + (bits >> 4)) & 0x0F0F0F0F0F0F0F0F;
}

std::uint64_t SumOfBytes(std::uint64_t bytes) { return (bytes * kOnes) >> 56; }

std::uint64_t Popcount(std::uint64_t bits) { return SumOfBytes(CountsInBytes(bits)); }

/// Number of bytes that are at most `most`. REQUIRES: no byte is above 127, most < 128.
std::uint64_t BytesUpTo(std::uint64_t bytes, std::uint64_t most) {
  return SumOfBytes((((most * kOnes) | kHighs) - bytes) >> 7 & kOnes);
}

/// The place of the bit that has `rank` set bits below it. REQUIRES: rank < number of set bits.
std::uint64_t SelectBit(std::uint64_t bits, std::uint64_t rank) {
  const std::uint64_t up_to_byte = CountsInBytes(bits) * kOnes;
  const std::uint64_t begin = BytesUpTo(up_to_byte, rank) * 8;
  const std::uint64_t rank_in_byte = rank - (up_to_byte << 8 >> begin & 0xFF);
  // Byte i gets bit i of the byte, and becomes 1 if that is set.
  const std::uint64_t spread = (bits >> begin & 0xFF) * kOnes & 0x8040201008040201;
  const std::uint64_t up_to_bit = ((spread + ~kHighs) >> 7 & kOnes) * kOnes;
  return begin + BytesUpTo(up_to_bit, rank_in_byte);
}

}  // namespace

void RankedBitmap::Seal() {
  count_ = 0;
  block_ranks_.reserve(words_.size() / kWordsPerBlock);
  for (std::uint64_t word = 0; word < words_.size(); ++word) {
    if (word % kWordsPerBlock == 0) block_ranks_.push_back(count_);
    count_ += Popcount(words_[word]);
    if (select_samples_.size() * kMembersPerSample < count_) {
      select_samples_.push_back(word / kWordsPerBlock);
    }
  }
  select_samples_.push_back(block_ranks_.size() - 1);
  select_samples_.shrink_to_fit();
}

std::uint64_t RankedBitmap::Rank(std::uint64_t number) const {
  const std::uint64_t block = number / 64 / kWordsPerBlock;
  std::uint64_t rank = block_ranks_[block];
  for (std::uint64_t word = block * kWordsPerBlock; word < number / 64; ++word) {
    rank += Popcount(words_[word]);
  }
  const std::uint64_t below = (std::uint64_t{1} << (number % 64)) - 1;
  return rank + Popcount(words_[number / 64] & below);
}

template <bool kMembers>
std::uint64_t RankedBitmap::FindBlock(std::uint64_t begin, std::uint64_t end,
                                      std::uint64_t rank) const {
  std::uint64_t block = begin;
  for (std::uint64_t blocks = end - begin; blocks > 1;) {
    const std::uint64_t half = blocks / 2;
    block += Before<kMembers>(block + half) <= rank ? half : 0;
    blocks -= half;
  }
  return block;
}

template <bool kMembers>
std::uint64_t RankedBitmap::SelectInBlock(std::uint64_t block, std::uint64_t rank) const {
  const auto bits = [&](std::uint64_t word) { return kMembers ? words_[word] : ~words_[word]; };
  std::uint64_t word = block * kWordsPerBlock;
  std::uint64_t left = rank - Before<kMembers>(block);
  for (;; ++word) {
    const std::uint64_t count = Popcount(bits(word));
    if (left < count) break;
    left -= count;
  }
  return word * 64 + SelectBit(bits(word), left);
}

std::uint64_t RankedBitmap::Select(std::uint64_t rank) const {
  const std::uint64_t sample = rank / kMembersPerSample;
  return SelectInBlock<true>(
      FindBlock<true>(select_samples_[sample], select_samples_[sample + 1] + 1, rank), rank);
}

void RankedBitmap::SelectAll(std::span<std::uint64_t> ranks) const {
  // Each pass asks for the memory that the next one reads.
  std::array<std::uint64_t, kAtOnce> blocks;
  for (; !ranks.empty(); ranks = ranks.subspan(std::min(kAtOnce, ranks.size()))) {
    const std::span<std::uint64_t> some = ranks.first(std::min(kAtOnce, ranks.size()));
    for (const std::uint64_t rank : some) {
      AskForNearLine(&select_samples_[rank / kMembersPerSample]);
    }
    for (const std::uint64_t rank : some) {
      AskForNearLine(&block_ranks_[select_samples_[rank / kMembersPerSample]]);
    }
    for (std::size_t i = 0; i < some.size(); ++i) {
      const std::uint64_t sample = some[i] / kMembersPerSample;
      blocks[i] =
          FindBlock<true>(select_samples_[sample], select_samples_[sample + 1] + 1, some[i]);
      const std::uint64_t* words = &words_[blocks[i] * kWordsPerBlock];
      AskForNearLine(words);
      AskForNearLine(words + kWordsPerBlock - 1);
    }
    for (std::size_t i = 0; i < some.size(); ++i) {
      some[i] = SelectInBlock<true>(blocks[i], some[i]);
    }
  }
}

std::uint64_t RankedBitmap::SelectAbsent(std::uint64_t rank) const {
  return SelectInBlock<false>(FindBlock<false>(0, block_ranks_.size(), rank), rank);
}

std::uint64_t RankedBitmap::Next(std::uint64_t number) const {
  std::uint64_t word = number / 64;
  std::uint64_t bits = words_[word] & (~std::uint64_t{0} << (number % 64));
  while (bits == 0) bits = words_[++word];
  return word * 64 + static_cast<std::uint64_t>(std::countr_zero(bits));
}

}  // namespace millrace
