#include "server/plan/order/mix_order.h"

#include <algorithm>
#include <utility>

#include <fmt/core.h>

namespace millrace {
namespace {

__extension__ using Wide = unsigned __int128;

/// The least number from `low` to `high` for which `holds` is true, or `high`. REQUIRES: `holds` is
/// true from some number on.
template <class Holds>
std::uint64_t Least(std::uint64_t low, std::uint64_t high, const Holds& holds) {
  while (low < high) {
    const std::uint64_t middle = low + (high - low) / 2;
    if (holds(middle)) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

Result<std::uint64_t> RowsOfEpoch(const std::vector<PlaceOrder>& branches, const MixShares& shares,
                                  const MixOrder::Options& options) {
  constexpr std::uint64_t kMost = StepArithmetic::kMaxExamples;
  if (options.rows) return *options.rows;
  const auto beyond = [&](std::uint64_t slots) {
    const std::vector<std::uint64_t> counts = shares.Of(slots);
    if (options.all_of) return counts[*options.all_of] >= branches[*options.all_of].size();
    for (std::size_t i = 0; i < counts.size(); ++i) {
      if (counts[i] > branches[i].size()) return true;
    }
    return false;
  };
  const std::uint64_t least = Least(0, kMost + 1, beyond);
  if (least > kMost) {
    return InvalidArgument(fmt::format("mix: an epoch would have more than {} rows", kMost));
  }
  return options.all_of ? least : least - 1;
}

}  // namespace

class MixOrder::Reader final : public OrderReader {
 public:
  explicit Reader(const MixOrder& order) : order_(order) {
    for (const PlaceOrder& branch : order.branches_) {
      branches_.push_back(std::make_unique<PlaceReader>(branch));
    }
  }

  void Rows(std::uint64_t epoch, ExampleRange units, std::vector<OrderRow>& rows) override {
    SetEpoch(epoch);
    for (std::uint64_t i = 0; i < units.count; ++i) {
      const std::uint64_t place = units.first + i;
      if (block_ == nullptr || place < block_->first || place - block_->first >= block_->slots()) {
        SetBlock(place / order_.shares_.block());
      }
      rows.push_back(RowAt((*block_->order)(place - block_->first)));
    }
  }

  void Places(std::uint64_t epoch, OrderRow row, std::vector<UnitRow>& places) override {
    SetEpoch(epoch);
    const std::size_t begin = places.size();
    PlaceReader& branch = *branches_[row.branch];
    const std::uint64_t n = branch.order().size();
    const std::uint64_t given = order_.rows_of_[row.branch];
    const Pass& pass = passes_[row.branch];
    if (order_.shortest_) {
      AddPlace(row.branch, branch.PlaceOf(epoch, row.row), places);
    } else {
      // The first pass may have begun in the epoch before, and the last may end in the next one.
      const Wide end = Wide{pass.skipped} + given;
      std::uint64_t number = pass.number;
      for (Wide before = 0; before < end; before += n, ++number) {
        const Wide at = before + branch.PlaceOf(number, row.row);
        if (at < pass.skipped || at >= end) continue;
        AddPlace(row.branch, static_cast<std::uint64_t>(at - pass.skipped), places);
      }
    }
    std::sort(places.begin() + static_cast<std::ptrdiff_t>(begin), places.end());
  }

 private:
  /// The pass over a branch that is under way when an epoch begins.
  struct Pass {
    std::uint64_t number = 0;   // is the epoch of the branch's own order
    std::uint64_t skipped = 0;  // rows of the pass that came in earlier epochs
  };
  struct Block {
    std::uint64_t number;
    std::uint64_t first;                // its first place
    std::vector<std::uint64_t> begins;  // of the branches' slots, then the number of all slots
    std::unique_ptr<KeyedOrder> order;
    std::uint64_t slots() const { return begins.back(); }
  };

  void SetEpoch(std::uint64_t epoch) {
    if (epoch_ == epoch) return;
    epoch_ = epoch;
    block_.reset();
    passes_.clear();
    for (std::size_t i = 0; i < branches_.size(); ++i) {
      if (order_.shortest_) {
        passes_.push_back({epoch, 0});
        continue;
      }
      const Wide before = Wide{epoch} * order_.rows_of_[i];
      const std::uint64_t n = branches_[i]->order().size();
      passes_.push_back(
          {static_cast<std::uint64_t>(before / n), static_cast<std::uint64_t>(before % n)});
    }
  }
  std::unique_ptr<Block> MakeBlock(std::uint64_t number) const {
    auto block = std::make_unique<Block>();
    block->number = number;
    block->first = number * order_.shares_.block();
    const std::uint64_t slots = std::min(order_.shares_.block(), order_.units_ - block->first);
    block->begins = {0};
    for (const std::uint64_t count : order_.shares_.Of(slots)) {
      block->begins.push_back(block->begins.back() + count);
    }
    block->order =
        std::make_unique<KeyedOrder>(DeriveSeed(order_.seed_, "mix", number), *epoch_, slots);
    return block;
  }
  void SetBlock(std::uint64_t number) {
    if (block_ == nullptr || block_->number != number) block_ = MakeBlock(number);
  }
  /// The row in a slot of the block.
  OrderRow RowAt(std::uint64_t slot) {
    const auto after = std::upper_bound(block_->begins.begin(), block_->begins.end(), slot);
    const auto i = static_cast<std::size_t>(after - 1 - block_->begins.begin());
    const std::uint64_t r = block_->number * order_.shares_.OfBlock(i) + slot - block_->begins[i];
    const std::uint64_t n = branches_[i]->order().size();
    std::uint64_t pass = passes_[i].number;
    std::uint64_t place = passes_[i].skipped + r;  // both are below 2^63
    if (place >= n) {
      pass += place / n;
      place %= n;
    }
    return {branches_[i]->At(pass, place), static_cast<std::uint32_t>(i), pass};
  }
  /// Adds the place of the r-th row that the epoch has of a branch, if it has so many.
  void AddPlace(std::uint32_t branch, std::uint64_t r, std::vector<UnitRow>& places) {
    if (r >= order_.rows_of_[branch]) return;
    const std::uint64_t of_block = order_.shares_.OfBlock(branch);
    SetBlock(r / of_block);
    const std::uint64_t slot = block_->begins[branch] + r % of_block;
    places.push_back({block_->first + block_->order->Inverse(slot), 0});
  }

  const MixOrder& order_;
  std::vector<std::unique_ptr<PlaceReader>> branches_;
  std::optional<std::uint64_t> epoch_;  // whose state the members below hold
  std::vector<Pass> passes_;            // by branch
  std::unique_ptr<Block> block_;        // of the last place
};

Result<std::shared_ptr<const MixOrder>> MixOrder::Make(std::vector<PlaceOrder> branches,
                                                       const Options& options) {
  for (std::size_t i = 0; i < branches.size(); ++i) {
    if (branches[i].size() == 0) return InvalidArgument(fmt::format("branch {} has no rows", i));
  }
  MixShares shares(options.weights);
  MILLRACE_ASSIGN_OR_RETURN(const std::uint64_t units, RowsOfEpoch(branches, shares, options));
  return std::shared_ptr<const MixOrder>(
      new MixOrder(std::move(branches), options, std::move(shares), units));
}

MixOrder::MixOrder(std::vector<PlaceOrder> branches, const Options& options, MixShares shares,
                   std::uint64_t units)
    : branches_(std::move(branches)),
      seed_(options.seed),
      shortest_(options.shortest),
      shares_(std::move(shares)),
      units_(units),
      rows_of_(shares_.Of(units)) {}

std::unique_ptr<OrderReader> MixOrder::NewReader() const { return std::make_unique<Reader>(*this); }

}  // namespace millrace
