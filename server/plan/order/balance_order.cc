#include "server/plan/order/balance_order.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>

namespace millrace {
namespace {

/// Sums of batches, of which the least is known: a tournament, whose matches are played again on
/// the way up from a batch that changes.
class LeastSum {
 public:
  explicit LeastSum(std::size_t batches)
      : leaves_(std::bit_ceil(batches)), sums_(leaves_, kFull), winners_(2 * leaves_) {
    std::fill_n(sums_.begin(), batches, 0);
    std::iota(winners_.begin() + static_cast<std::ptrdiff_t>(leaves_), winners_.end(), 0u);
    for (std::size_t match = leaves_ - 1; match > 0; --match) Play(match);
  }

  /// The batch with the least sum of those not full; of equal ones the lowest.
  std::uint32_t batch() const { return winners_[1]; }
  /// Adds to the batch of the least sum.
  void Add(std::uint64_t value) { Set(sums_[batch()] + value); }
  /// The batch of the least sum is full: it gets no more.
  void Fill() { Set(kFull); }

 private:
  static constexpr std::uint64_t kFull = std::numeric_limits<std::uint64_t>::max();

  void Set(std::uint64_t sum) {
    const std::uint32_t changed = batch();
    sums_[changed] = sum;
    for (std::size_t match = (leaves_ + changed) / 2; match > 0; match /= 2) Play(match);
  }
  void Play(std::size_t match) {
    const std::uint32_t low = winners_[2 * match];
    const std::uint32_t high = winners_[2 * match + 1];
    winners_[match] = sums_[low] <= sums_[high] ? low : high;
  }

  std::size_t leaves_;
  std::vector<std::uint64_t> sums_;     // by batch
  std::vector<std::uint32_t> winners_;  // of each match, the final first; then the batches
};

/// Deals rows, given by their values in the order of their places, to `begins.size() - 1` batches
/// of given sizes. Returns the batch of each row.
std::vector<std::uint32_t> DealTo(std::span<const std::size_t> begins,
                                  std::span<const std::uint64_t> values) {
  std::vector<std::uint32_t> largest_first(values.size());
  std::iota(largest_first.begin(), largest_first.end(), 0u);
  std::stable_sort(largest_first.begin(), largest_first.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return values[a] > values[b]; });
  std::vector<std::size_t> room;
  for (std::size_t batch = 0; batch + 1 < begins.size(); ++batch) {
    room.push_back(begins[batch + 1] - begins[batch]);
  }
  LeastSum least(room.size());
  std::vector<std::uint32_t> batch_of(values.size());
  for (const std::uint32_t row : largest_first) {
    const std::uint32_t batch = least.batch();
    batch_of[row] = batch;
    if (--room[batch] > 0) {
      least.Add(values[row]);
    } else {
      least.Fill();
    }
  }
  return batch_of;
}

}  // namespace

class BalanceOrder::Reader final : public OrderReader {
 public:
  explicit Reader(const BalanceOrder& order) : order_(order), places_(order.order_) {}

  void Rows(std::uint64_t epoch, ExampleRange units, std::vector<OrderRow>& rows) override {
    for (std::uint64_t i = 0; i < units.count; ++i) {
      const std::uint64_t unit = units.first + i;
      const std::uint64_t group = unit / order_.options_.group;
      const Dealt& dealt = Group({epoch, group});
      const std::uint64_t batch = unit - group * order_.options_.group;
      for (std::size_t at = dealt.begins[batch]; at < dealt.begins[batch + 1]; ++at) {
        rows.push_back({dealt.rows[at], 0});
      }
    }
  }

  void Places(std::uint64_t epoch, OrderRow row, std::vector<UnitRow>& places) override {
    const std::uint64_t batch = places_.PlaceOf(epoch, row.row) / order_.options_.size;
    const std::uint64_t group = batch / order_.options_.group;
    if (group * order_.options_.group >= order_.units_) return;
    const Dealt& dealt = Group({epoch, group});
    const auto found = std::find(dealt.rows.begin(), dealt.rows.end(), row.row);
    if (found == dealt.rows.end()) return;
    const auto at = static_cast<std::size_t>(found - dealt.rows.begin());
    const auto after = std::upper_bound(dealt.begins.begin(), dealt.begins.end(), at);
    const auto unit = static_cast<std::uint64_t>(after - 1 - dealt.begins.begin());
    places.push_back(
        {group * order_.options_.group + unit, static_cast<std::uint32_t>(at - *(after - 1))});
  }

 private:
  const Dealt& Group(const GroupKey& key) {
    if (dealt_ == nullptr || !(key == key_)) dealt_ = order_.GroupOf(key, places_);
    key_ = key;
    return *dealt_;
  }

  const BalanceOrder& order_;
  PlaceReader places_;
  GroupKey key_{};
  std::shared_ptr<const Dealt> dealt_;  // the group of key_
};

BalanceOrder::BalanceOrder(PlaceOrder order, std::shared_ptr<const RowValues> values,
                           const Options& options)
    : order_(std::move(order)),
      values_(std::move(values)),
      options_(options),
      units_(order_.size() / options.size +
             (options.keep && order_.size() % options.size > 0 ? 1 : 0)) {}

BalanceOrder::~BalanceOrder() = default;

std::unique_ptr<OrderReader> BalanceOrder::NewReader() const {
  return std::make_unique<Reader>(*this);
}

std::uint64_t BalanceOrder::BatchesOf(std::uint64_t group) const {
  return std::min(options_.group, units_ - group * options_.group);
}

std::shared_ptr<const BalanceOrder::Dealt> BalanceOrder::GroupOf(const GroupKey& key,
                                                                 PlaceReader& places) const {
  {
    MutexLock lock(mutex_);
    for (auto it = kept_.begin(); it != kept_.end(); ++it) {
      if (!(it->first == key)) continue;
      kept_.splice(kept_.begin(), kept_, it);
      return it->second;
    }
  }
  // Two readers that need the same group at once may both deal it. That costs less than to wait.
  auto dealt = std::make_shared<const Dealt>(Deal(key, places));
  MutexLock lock(mutex_);
  kept_.emplace_front(key, dealt);
  if (kept_.size() > kKept) kept_.pop_back();
  return dealt;
}

BalanceOrder::Dealt BalanceOrder::Deal(const GroupKey& key, PlaceReader& places) const {
  const std::uint64_t batches = BatchesOf(key.group);
  const std::uint64_t first = key.group * options_.group * options_.size;
  const std::uint64_t count = std::min(batches * options_.size, order_.size() - first);
  std::vector<std::uint64_t> rows(count);
  for (std::uint64_t i = 0; i < count; ++i) rows[i] = places.At(key.epoch, first + i);
  std::vector<std::uint64_t> values(count);
  values_->Read(rows, values);

  Dealt dealt;
  for (std::uint64_t batch = 0; batch <= batches; ++batch) {
    dealt.begins.push_back(batch * count / batches);
  }
  const std::vector<std::uint32_t> batch_of = DealTo(dealt.begins, values);
  std::vector<std::size_t> ends(dealt.begins.begin(), dealt.begins.end() - 1);
  dealt.rows.resize(count);
  for (std::uint64_t i = 0; i < count; ++i) dealt.rows[ends[batch_of[i]]++] = rows[i];
  return dealt;
}

}  // namespace millrace
