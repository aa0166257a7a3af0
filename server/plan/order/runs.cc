#include "server/plan/order/runs.h"

#include <algorithm>

namespace millrace {

Runs::Runs(std::span<const std::uint64_t> counts, std::uint64_t length, const OrderSeed& seed)
    : length_(length), seed_(seed), first_runs_{0} {
  for (const std::uint64_t count : counts) {
    items_ += count;
    const std::uint64_t whole = count / length;
    const std::uint64_t rest = count % length;
    if (rest > 0) short_runs_.push_back({first_runs_.back() + whole, length - rest});
    first_runs_.push_back(first_runs_.back() + whole + (rest > 0 ? 1 : 0));
  }
}

RunsOfEpoch::RunsOfEpoch(const Runs& runs, std::uint64_t epoch)
    : runs_(&runs), order_(runs.seed_, epoch, runs.runs()) {
  for (const Runs::ShortRun& run : runs.short_runs_) {
    gaps_.push_back({order_.Inverse(run.run), 0, run.lack});
  }
  std::sort(gaps_.begin(), gaps_.end(), [](const Gap& a, const Gap& b) { return a.slot < b.slot; });
  std::uint64_t lack = 0;
  for (Gap& gap : gaps_) {
    lack += gap.lack;
    gap.lack = lack;
    gap.end = (gap.slot + 1) * runs.length_ - lack;
  }
}

RunsOfEpoch::SlotOffset RunsOfEpoch::SlotAndOffset(std::uint64_t place) const {
  const auto after =
      std::upper_bound(gaps_.begin(), gaps_.end(), place,
                       [](std::uint64_t value, const Gap& gap) { return value < gap.end; });
  if (after != gaps_.begin()) place += std::prev(after)->lack;
  const std::uint64_t slot = place / runs_->length_;
  return {slot, place - slot * runs_->length_};
}

RunsOfEpoch::Item RunsOfEpoch::At(std::uint64_t place) const {
  const auto [slot, offset] = SlotAndOffset(place);
  const std::uint64_t run = order_(slot);
  const auto& firsts = runs_->first_runs_;
  const auto list = std::upper_bound(firsts.begin() + 1, firsts.end() - 1, run) - 1;
  return {static_cast<std::size_t>(list - firsts.begin()), (run - *list) * runs_->length_ + offset};
}

std::uint64_t RunsOfEpoch::PlaceOf(const Item& item) const {
  const std::uint64_t run = item.number / runs_->length_;
  const std::uint64_t slot = order_.Inverse(runs_->first_runs_[item.list] + run);
  return StartOf(slot) + (item.number - run * runs_->length_);
}

std::uint64_t RunsOfEpoch::StartOf(std::uint64_t slot) const {
  const auto after =
      std::lower_bound(gaps_.begin(), gaps_.end(), slot,
                       [](const Gap& gap, std::uint64_t value) { return gap.slot < value; });
  return slot * runs_->length_ - (after == gaps_.begin() ? 0 : std::prev(after)->lack);
}

}  // namespace millrace
