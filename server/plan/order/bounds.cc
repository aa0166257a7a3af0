#include "server/plan/order/bounds.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <utility>

namespace millrace {
namespace {

constexpr std::size_t kSlots = 2 * ValueHistogram::kMaxEntries;

/// Sums of bounds reach 2^40 times the number of values.
__extension__ using Uint128 = unsigned __int128;

/// The number of the group of a value: ceil(value / 2^shift).
std::uint64_t GroupOf(std::uint64_t value, unsigned shift) {
  return (value + (std::uint64_t{1} << shift) - 1) >> shift;
}

/// Fibonacci hashing (D. Knuth, "The Art of Computer Programming" 3, 6.4): neighbours and
/// multiples, which lengths often are, spread evenly.
std::size_t FirstSlot(std::uint64_t group) {
  return (group * 0x9E3779B97F4A7C15u) >> (64 - std::countr_zero(kSlots));
}

/// Chooses bounds. "The first i" are the i smallest entries.
///
/// Let best(c, i) be the least sum of bounds for the first i entries in c buckets. The last bucket
/// holds the entries after the first j, for some j < i:
///   best(c, i) = min over j of best(c - 1, j) + cost(j, i),
///   cost(j, i) = value(i) * (number of values among the first i but not among the first j).
/// For j <= j' < i <= i', cost(j, i) + cost(j', i') - cost(j', i) - cost(j, i')
///   = (value(i) - value(i')) * (number among the first j' but not among the first j) <= 0,
/// which is the quadrangle inequality. So the leftmost best j never falls as i grows.
class BoundsSearch {
 public:
  BoundsSearch(const std::vector<ValueHistogram::Entry>& entries, std::size_t count)
      : size_(entries.size()), count_(std::min(count, size_)) {
    for (const ValueHistogram::Entry& entry : entries) {
      values_.push_back(entry.largest);
      totals_.push_back(totals_.back() + entry.count);
    }
  }

  std::vector<std::uint64_t> Run() {
    best_.resize(size_ + 1);
    next_.resize(size_ + 1);
    for (std::size_t i = 1; i <= size_; ++i) best_[i] = Uint128{values_[i]} * totals_[i];
    choices_.resize(count_ < 2 ? 0 : (count_ - 1) * size_);
    for (bucket_ = 2; bucket_ <= count_; ++bucket_) {
      // The buckets after this one need an entry each. After the last one nothing is left.
      const std::size_t end = size_ - (count_ - bucket_);
      const std::size_t begin = bucket_ == count_ ? end : bucket_;
      Minimise(begin, end, bucket_ - 1, end - 1);
      std::swap(best_, next_);
    }
    return Bounds();
  }

 private:
  /// The choice of j for a number of buckets of at least 2.
  std::uint16_t& Choice(std::size_t buckets, std::size_t i) {
    return choices_[(buckets - 2) * size_ + i - 1];
  }

  /// Computes best(bucket_, i) for i from `begin` to `end`, whose choices lie from `low` to `high`.
  void Minimise(std::size_t begin, std::size_t end, std::size_t low, std::size_t high) {
    if (begin > end) return;
    const std::size_t i = begin + (end - begin) / 2;
    const std::uint64_t value = values_[i];
    const std::uint64_t total = totals_[i];
    Uint128 least = best_[low] + Uint128{value} * (total - totals_[low]);
    std::size_t choice = low;
    for (std::size_t j = low + 1; j <= std::min(high, i - 1); ++j) {
      const Uint128 cost = best_[j] + Uint128{value} * (total - totals_[j]);
      choice = cost < least ? j : choice;
      least = std::min(cost, least);
    }
    next_[i] = least;
    Choice(bucket_, i) = static_cast<std::uint16_t>(choice);
    Minimise(begin, i - 1, low, choice);
    Minimise(i + 1, end, choice, high);
  }

  std::vector<std::uint64_t> Bounds() {
    std::vector<std::uint64_t> bounds(count_);
    std::size_t i = size_;
    for (std::size_t bucket = count_; bucket > 0; --bucket) {
      bounds[bucket - 1] = values_[i];
      if (bucket > 1) i = Choice(bucket, i);
    }
    return bounds;
  }

  const std::size_t size_;
  const std::size_t count_;
  std::vector<std::uint64_t> values_{0};  // from 1
  std::vector<std::uint64_t> totals_{0};  // number of values among the first i
  std::size_t bucket_ = 1;                // number of buckets of next_
  std::vector<Uint128> best_;             // by i; one bucket fewer than next_
  std::vector<Uint128> next_;
  std::vector<std::uint16_t> choices_;  // j < kMaxEntries
};

}  // namespace

ValueHistogram::ValueHistogram(std::uint64_t limit) : limit_(limit), slots_(kSlots) {}

ValueHistogram::Entry& ValueHistogram::SlotOf(std::uint64_t value) {
  const std::uint64_t group = GroupOf(value, shift_);
  std::size_t slot = FirstSlot(group);
  while (slots_[slot].count != 0 && GroupOf(slots_[slot].largest, shift_) != group) {
    slot = (slot + 1) % kSlots;
  }
  return slots_[slot];
}

void ValueHistogram::Add(std::span<const std::int64_t> values) {
  for (std::size_t i = 0; i < values.size();) {
    const std::size_t begin = i++;
    while (i < values.size() && values[i] == values[begin]) ++i;
    AddRun(static_cast<std::uint64_t>(values[begin]), i - begin);
  }
}

void ValueHistogram::AddRun(std::uint64_t value, std::uint64_t count) {
  if (value > limit_) {
    above_ += count;
    if (value <= kMaxValue) largest_ = std::max(largest_, value);
    return;
  }
  largest_ = std::max(largest_, value);
  count_ += count;
  Entry& slot = SlotOf(value);
  entries_ += slot.count == 0 ? 1 : 0;
  slot.largest = std::max(slot.largest, value);
  slot.count += count;
  while (entries_ > kMaxEntries) Widen();
}

void ValueHistogram::Widen() {
  const std::vector<Entry> old = std::exchange(slots_, std::vector<Entry>(kSlots));
  ++shift_;
  entries_ = 0;
  for (const Entry& entry : old) {
    if (entry.count == 0) continue;
    Entry& slot = SlotOf(entry.largest);
    entries_ += slot.count == 0 ? 1 : 0;
    slot.largest = std::max(slot.largest, entry.largest);
    slot.count += entry.count;
  }
}

std::vector<ValueHistogram::Entry> ValueHistogram::Entries() const {
  std::vector<Entry> entries;
  entries.reserve(entries_);
  std::copy_if(slots_.begin(), slots_.end(), std::back_inserter(entries),
               [](const Entry& entry) { return entry.count != 0; });
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.largest < b.largest; });
  return entries;
}

std::vector<std::uint64_t> BestBounds(const ValueHistogram& histogram, std::size_t count) {
  return BoundsSearch(histogram.Entries(), count).Run();
}

std::vector<std::uint64_t> BucketCounts(const ValueHistogram& histogram,
                                        std::span<const std::uint64_t> bounds) {
  std::vector<std::uint64_t> counts(bounds.size(), 0);
  std::size_t bucket = 0;
  for (const ValueHistogram::Entry& entry : histogram.Entries()) {
    while (bucket < bounds.size() && bounds[bucket] < entry.largest) ++bucket;
    if (bucket == bounds.size()) break;
    counts[bucket] += entry.count;
  }
  return counts;
}

}  // namespace millrace
