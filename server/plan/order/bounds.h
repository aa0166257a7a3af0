// Bounds of buckets that make padding least, and the histogram from which they are chosen.
//
// A bucket holds the values above the bound before it, up to and with its own bound; each value of
// it is padded to that bound. docs/guides/orders.md, "Buckets", has the reasons.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace millrace {

/// How often each value occurs, of any number of values in 2 MiB. While more than kMaxEntries
/// values are distinct, values v that agree in ceil(v / 2^t) count as the largest of them, for the
/// least t that leaves at most kMaxEntries groups. The result does not depend on the order of the
/// values.
///
/// Filled by one thread; const access from several threads is safe afterwards.
class ValueHistogram {
 public:
  static constexpr std::uint64_t kMaxValue = std::uint64_t{1} << 40;
  static constexpr std::size_t kMaxEntries = 65'536;

  /// A group of values; a group of one value unless there are too many.
  struct Entry {
    std::uint64_t largest = 0;  // of the values of the group
    std::uint64_t count = 0;    // number of values; never 0 in entries()
    friend bool operator==(const Entry&, const Entry&) = default;
  };

  /// Values above `limit`, such as a budget, get no entry. REQUIRES: limit <= kMaxValue.
  explicit ValueHistogram(std::uint64_t limit = kMaxValue);

  /// Adds values. A negative one counts as above the limit.
  void Add(std::span<const std::int64_t> values);

  /// The groups, by ascending values. Takes milliseconds.
  std::vector<Entry> Entries() const;
  /// Number of values that have entries.
  std::uint64_t count() const { return count_; }
  /// Number of values above the limit.
  std::uint64_t above() const { return above_; }
  /// The largest value that was added; 0 if there are no values.
  std::uint64_t largest() const { return largest_; }

 private:
  /// The slot of the group that a value belongs to. It has a count of 0 if the group is new.
  Entry& SlotOf(std::uint64_t value);
  void AddRun(std::uint64_t value, std::uint64_t count);
  /// Makes groups twice as wide.
  void Widen();

  std::uint64_t limit_;
  std::uint64_t count_ = 0;
  std::uint64_t above_ = 0;
  std::uint64_t largest_ = 0;
  unsigned shift_ = 0;        // t
  std::size_t entries_ = 0;   // slots in use
  std::vector<Entry> slots_;  // a hash table with linear probing, at most half full
};

/// The best bounds: min(count, entries) of the histogram's values, ascending, such that the sum
/// over all values of the bounds of their buckets is least. If several choices are equal, the one
/// with the smallest last but one bound, then the smallest bound before it, and so on. Exact.
///
/// Dynamic programming over the buckets; each step finds the leftmost minima of a Monge matrix by
/// divide and conquer. For k bounds and D entries this takes O(k D log D) time and 2 k D bytes.
/// (F. Yao, "Efficient dynamic programming using quadrangle inequalities", STOC 1980; A. Aggarwal,
/// M. Klawe, S. Moran, P. Shor, R. Wilber, "Geometric applications of a matrix-searching
/// algorithm", Algorithmica 2, 1987, whose SMAWK would save the logarithm.)
std::vector<std::uint64_t> BestBounds(const ValueHistogram& histogram, std::size_t count);

/// Number of values in each bucket; values above the last bound are in no bucket. Exact if no bound
/// splits a group of the histogram: bounds of BestBounds never do, and no bounds do while each
/// entry is one value. REQUIRES: ascending bounds.
std::vector<std::uint64_t> BucketCounts(const ValueHistogram& histogram,
                                        std::span<const std::uint64_t> bounds);

}  // namespace millrace
