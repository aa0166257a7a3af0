// A set of small numbers that gives the least member from a number on: a bitmap, and above it a
// bitmap of its words that are not 0, and so on (the tree of P. van Emde Boas, "Preserving order in
// a forest in less than logarithmic time", FOCS 1975, with 64 branches at every level). Each call
// takes as many steps as there are levels: two for numbers below 4,096, four for 2^20.
//
// Not thread-safe.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace millrace {

class NumberSet {
 public:
  static constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();

  /// An empty set of numbers below `limit`. REQUIRES: limit <= 2^24.
  explicit NumberSet(std::uint32_t limit) {
    std::size_t words = 0;
    std::uint32_t numbers = limit;
    do {
      numbers = (numbers + 63) / 64;
      begin_[levels_++] = words;
      words += numbers + 1;  // the last word stays 0, so that Next may look one too far
    } while (numbers > 1);
    words_.resize(words);
  }

  /// REQUIRES: number < limit.
  void Insert(std::uint32_t number) {
    for (std::size_t level = 0; level < levels_; ++level) {
      std::uint64_t& word = WordOf(level, number);
      const bool was_empty = word == 0;
      word |= std::uint64_t{1} << number % 64;
      if (!was_empty) return;
      number /= 64;
    }
  }

  /// REQUIRES: number < limit.
  void Erase(std::uint32_t number) {
    for (std::size_t level = 0; level < levels_; ++level) {
      std::uint64_t& word = WordOf(level, number);
      word &= ~(std::uint64_t{1} << number % 64);
      if (word != 0) return;
      number /= 64;
    }
  }

  /// The least member that is not below `number`; kNone if there is none. REQUIRES: number <=
  /// limit.
  std::uint32_t Next(std::uint32_t number) const {
    std::size_t level = 0;
    while (true) {
      const std::uint64_t word = WordOf(level, number) >> number % 64;
      if (word != 0) {
        number += static_cast<std::uint32_t>(std::countr_zero(word));
        break;
      }
      if (++level == levels_) return kNone;
      number = number / 64 + 1;
    }
    for (; level > 0; --level) {
      number = number * 64 +
               static_cast<std::uint32_t>(std::countr_zero(words_[begin_[level - 1] + number]));
    }
    return number;
  }

 private:
  static constexpr std::size_t kMaxLevels = 4;

  std::uint64_t& WordOf(std::size_t level, std::uint32_t number) {
    return words_[begin_[level] + number / 64];
  }
  std::uint64_t WordOf(std::size_t level, std::uint32_t number) const {
    return words_[begin_[level] + number / 64];
  }

  std::size_t levels_ = 0;
  std::array<std::size_t, kMaxLevels> begin_{};  // where the words of each level begin
  std::vector<std::uint64_t> words_;
};

}  // namespace millrace
