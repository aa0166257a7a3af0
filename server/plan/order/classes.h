// The classes of a bucketed order: which rows have a value in which bucket. Rows are numbered from
// 0; the class of a value v is the number of bounds below v; values above the last bound have no
// class.
//
// A first pass over the values counts the rows of each class (ClassCounter, or BucketCounts of the
// histogram from which the bounds were chosen). A second pass notes the rows (Classes::Builder).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "common/base/result.h"
#include "server/plan/order/elias_fano.h"

namespace millrace {

/// Finds the classes of values. Immutable; thread-safe.
class ClassFinder {
 public:
  /// REQUIRES: ascending bounds.
  explicit ClassFinder(std::span<const std::uint64_t> bounds);

  /// Number of classes.
  std::size_t size() const { return size_; }
  /// The class of a value; size() if it has no class, or is negative.
  std::size_t operator()(std::int64_t value) const {
    // Binary search without a branch that depends on the value.
    std::size_t found = 0;
    for (std::size_t step = (bounds_.size() + 1) / 2; step > 0; step /= 2) {
      const bool above = bounds_[found + step - 1] < static_cast<std::uint64_t>(value);
      found += above ? step : 0;
    }
    return found;
  }

 private:
  std::size_t size_;
  std::vector<std::uint64_t> bounds_;  // 2^x - 1 of them, the last ones above every value
};

/// Counts the rows of each class. Not thread-safe.
class ClassCounter {
 public:
  /// REQUIRES: ascending bounds.
  explicit ClassCounter(std::span<const std::uint64_t> bounds);

  void Add(std::span<const std::int64_t> values);

  /// Number of rows, by class.
  std::span<const std::uint64_t> counts() const { return std::span(counts_).first(finder_.size()); }
  /// Number of rows that have no class.
  std::uint64_t above() const { return counts_.back(); }
  /// The largest value that was added; 0 if there are no values.
  std::uint64_t largest() const { return static_cast<std::uint64_t>(largest_); }

 private:
  ClassFinder finder_;
  std::vector<std::uint64_t> counts_;  // the last one is of rows without a class
  std::int64_t largest_ = 0;
};

/// The rows of each class, ascending. A class with the share p of the rows takes at most
/// 2.5 + log2(1 / p) bits for each of its rows: 16 classes take at most 0.81 bytes per row.
///
/// Immutable; thread-safe.
class Classes {
 public:
  class Builder;

  /// Number of classes.
  std::size_t size() const { return lists_.size(); }
  /// Number of rows of a class. REQUIRES: c < size().
  std::uint64_t count(std::size_t c) const { return lists_[c].size(); }
  /// The row of a class that has i rows of that class below it: some tens of nanoseconds, or about
  /// two cache misses. REQUIRES: c < size(), i < count(c).
  std::uint64_t Select(std::size_t c, std::uint64_t i) const { return lists_[c].Select(i); }

  /// Replaces each i with Select(c, i). Reads of memory overlap: prefer it to many calls of Select.
  /// REQUIRES: as Select.
  void SelectAll(std::size_t c, std::span<std::uint64_t> rows) const { lists_[c].SelectAll(rows); }

  struct Member {
    std::size_t c = 0;
    std::uint64_t i = 0;
    friend bool operator==(const Member&, const Member&) = default;
  };
  /// The inverse of Select; nullopt for a row without a class. Takes O(size() log rows): prefer
  /// Find if the value of the row is known.
  std::optional<Member> ClassOf(std::uint64_t row) const;
  /// Number of rows of a class below a row of it; nullopt if the row is not of that class.
  /// REQUIRES: c < size().
  std::optional<std::uint64_t> Find(std::size_t c, std::uint64_t row) const;

 private:
  Classes(std::uint64_t rows, std::vector<EliasFano> lists)
      : rows_(rows), lists_(std::move(lists)) {}

  std::uint64_t rows_;
  std::vector<EliasFano> lists_;  // by class
};

/// Makes classes from the values of all rows, in the order of the rows. Not thread-safe.
class Classes::Builder {
 public:
  /// `counts` are the numbers of rows of each class. REQUIRES: ascending bounds, as many counts.
  Builder(std::span<const std::uint64_t> bounds, std::span<const std::uint64_t> counts,
          std::uint64_t rows);

  void Add(std::span<const std::int64_t> values);
  /// Aborted if the values do not have the counts, which happens if they changed between the
  /// passes.
  Result<Classes> Build() &&;

 private:
  ClassFinder finder_;
  std::uint64_t rows_;
  std::uint64_t added_ = 0;
  bool overflows_ = false;  // whether there was a row too many
  std::vector<EliasFano> lists_;
};

}  // namespace millrace
