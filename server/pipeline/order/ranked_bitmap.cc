#include "server/pipeline/order/ranked_bitmap.h"

#include <algorithm>

namespace millrace {

void RankedBitmap::Seal() {
  count_ = 0;
  block_ranks_.reserve(words_.size() / kWordsPerBlock + 1);
  for (std::uint64_t word = 0; word < words_.size(); ++word) {
    if (word % kWordsPerBlock == 0) block_ranks_.push_back(count_);
    count_ += static_cast<std::uint64_t>(std::popcount(words_[word]));
    if (select_samples_.size() * kMembersPerSample < count_) {
      select_samples_.push_back(word / kWordsPerBlock);
    }
  }
}

std::uint64_t RankedBitmap::Rank(std::uint64_t number) const {
  const std::uint64_t block = number / 64 / kWordsPerBlock;
  std::uint64_t rank = block_ranks_[block];
  for (std::uint64_t word = block * kWordsPerBlock; word < number / 64; ++word) {
    rank += static_cast<std::uint64_t>(std::popcount(words_[word]));
  }
  const std::uint64_t below = (std::uint64_t{1} << (number % 64)) - 1;
  return rank + static_cast<std::uint64_t>(std::popcount(words_[number / 64] & below));
}

std::uint64_t RankedBitmap::Select(std::uint64_t rank) const {
  const std::uint64_t sample = rank / kMembersPerSample;
  const auto first = block_ranks_.begin() + static_cast<std::ptrdiff_t>(select_samples_[sample]);
  const auto last =
      sample + 1 < select_samples_.size()
          ? block_ranks_.begin() + static_cast<std::ptrdiff_t>(select_samples_[sample + 1]) + 1
          : block_ranks_.end();
  const auto block = std::upper_bound(first, last, rank) - 1;
  std::uint64_t left = rank - *block;
  std::uint64_t word = static_cast<std::uint64_t>(block - block_ranks_.begin()) * kWordsPerBlock;
  for (;; ++word) {
    const auto members = static_cast<std::uint64_t>(std::popcount(words_[word]));
    if (left < members) break;
    left -= members;
  }
  std::uint64_t bits = words_[word];
  for (; left > 0; --left) bits &= bits - 1;
  return word * 64 + static_cast<std::uint64_t>(std::countr_zero(bits));
}

std::uint64_t RankedBitmap::Next(std::uint64_t number) const {
  std::uint64_t word = number / 64;
  std::uint64_t bits = words_[word] & (~std::uint64_t{0} << (number % 64));
  while (bits == 0) bits = words_[++word];
  return word * 64 + static_cast<std::uint64_t>(std::countr_zero(bits));
}

}  // namespace millrace
