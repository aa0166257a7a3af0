#include "server/plan/order/bucket_order.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace millrace {
namespace {

std::vector<std::uint64_t> BatchCounts(const Classes& classes,
                                       const BucketOrder::Options& options) {
  std::vector<std::uint64_t> counts;
  for (std::size_t c = 0; c < classes.size(); ++c) {
    const std::uint64_t rows = classes.count(c);
    const std::uint64_t size = options.sizes[c];
    counts.push_back(rows / size + (options.keep && rows % size > 0 ? 1 : 0));
  }
  return counts;
}

}  // namespace

class BucketOrder::Reader final : public OrderReader {
 public:
  explicit Reader(const BucketOrder& order) : order_(order), rows_of_(order.classes_->size()) {}

  void Rows(std::uint64_t epoch, ExampleRange units, std::vector<OrderRow>& rows) override {
    SetEpoch(epoch);
    for (std::uint64_t i = 0; i < units.count; ++i) {
      const auto [c, batch] = batches_->At(units.first + i);
      const std::uint64_t size = order_.options_.sizes[c];
      const KeyedOrder& order = RowsOf(c);
      const std::uint64_t end = std::min((batch + 1) * size, order.size());
      // The permutation first: reads of the classes, which miss the cache, then overlap.
      numbers_.clear();
      for (std::uint64_t row = batch * size; row < end; ++row) numbers_.push_back(order(row));
      order_.classes_->SelectAll(c, numbers_);
      for (const std::uint64_t row : numbers_) rows.push_back({row, 0});
    }
  }

  void Places(std::uint64_t epoch, OrderRow row, std::vector<UnitRow>& places) override {
    SetEpoch(epoch);
    const auto found = order_.classes_->ClassOf(row.row);
    if (!found) return;
    const std::uint64_t place = RowsOf(found->c).Inverse(found->i);
    const std::uint64_t size = order_.options_.sizes[found->c];
    const std::uint64_t batch = place / size;
    if (batch >= order_.counts_[found->c]) return;
    places.push_back(
        {batches_->PlaceOf({found->c, batch}), static_cast<std::uint32_t>(place - batch * size)});
  }

 private:
  void SetEpoch(std::uint64_t epoch) {
    if (epoch_ == epoch) return;
    epoch_ = epoch;
    batches_.emplace(order_.batches_, epoch);
    for (auto& rows : rows_of_) rows.reset();
  }
  /// The order of the rows of a class.
  const KeyedOrder& RowsOf(std::size_t c) {
    if (!rows_of_[c]) {
      rows_of_[c].emplace(DeriveSeed(order_.options_.seed, "class", c), *epoch_,
                          order_.classes_->count(c));
    }
    return *rows_of_[c];
  }

  const BucketOrder& order_;
  std::optional<std::uint64_t> epoch_;  // whose state the members below hold
  std::optional<RunsOfEpoch> batches_;
  std::vector<std::optional<KeyedOrder>> rows_of_;  // by class; made when it is needed
  std::vector<std::uint64_t> numbers_;              // of the rows of a batch
};

BucketOrder::BucketOrder(std::shared_ptr<const Classes> classes, Options options)
    : classes_(std::move(classes)),
      options_(std::move(options)),
      counts_(BatchCounts(*classes_, options_)),
      batches_(counts_, options_.together, DeriveSeed(options_.seed, "batches", 0)) {
  for (std::size_t c = 0; c < counts_.size(); ++c) {
    if (counts_[c] == 0) continue;
    const std::uint64_t all = classes_->count(c);
    rows_ += options_.keep ? all : counts_[c] * options_.sizes[c];
    const std::uint64_t rows = std::min<std::uint64_t>(options_.sizes[c], all);
    max_rows_ = std::max(max_rows_, static_cast<std::uint32_t>(rows));
  }
}

std::unique_ptr<OrderReader> BucketOrder::NewReader() const {
  return std::make_unique<Reader>(*this);
}

}  // namespace millrace
