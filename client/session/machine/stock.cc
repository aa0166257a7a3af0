#include "client/session/machine/stock.h"

#include <algorithm>

#include "common/base/mutant.h"
#include "common/transport/convert/drop_reasons.h"

namespace millrace::client {
namespace {

// The window starts small and grows as batches come, since the first batches show how large a batch
// is.
constexpr std::uint64_t kFirstWindow = 8;
constexpr std::uint64_t kWindowGrowth = 16;  // in batches, for each batch that came
// A training loop may hold the batch that it works on and the one before. These two do not make the
// window smaller.
constexpr std::uint64_t kFreeLoopHolds = 2;
constexpr std::uint64_t kGuessedBatchBytes = 1 << 20;
constexpr std::uint64_t kLeastBatchLimit = 64u << 20;
constexpr std::uint64_t kUnknownBatchLimit = std::uint64_t{2} << 30;
constexpr std::size_t kPastKept = 64;

}  // namespace

void Stock::OnAdmitted() {
  taken_.drop_reasons = DropReasonsOf(attach_.admission()->spec);
  if (IsMutant(Mutant::kPositionOffByOne)) ++next_;
}

void Stock::Keep(std::uint64_t step, const Arrival& arrival, WorkerId worker) {
  held_[step] = {arrival.digest, arrival.bytes,    arrival.wire_bytes,
                 arrival.counts, arrival.in_place, worker};
  if (IsMutant(Mutant::kCopyDeliveredTwice)) next_ = std::min(next_, step);
  held_bytes_ += arrival.bytes;
  largest_bytes_ = std::max(largest_bytes_, arrival.bytes);
  ++arrived_;
  const double weight = std::max(1.0 / 64, 1.0 / static_cast<double>(arrived_));
  mean_bytes_ += weight * (static_cast<double>(arrival.bytes) - mean_bytes_);
  if (IsMutant(Mutant::kPositionMovesOnReceipt)) ++next_;
}

void Stock::Take() {
  const auto it = held_.find(next_);
  const Held& held = it->second;
  taken_.Add(held.counts);
  taken_.bytes += held.bytes;
  taken_.wire_bytes += held.wire_bytes;
  taken_.in_place += held.in_place ? 1 : 0;
  held_bytes_ -= held.bytes;
  past_.push_back({next_, held.digest, held.worker});
  if (past_.size() > kPastKept) past_.pop_front();
  held_.erase(it);
  ++next_;
}

bool Stock::SetLoopHolds(std::uint64_t batches) {
  const std::uint64_t window_before = window();
  loop_holds_ = batches;
  return window() != window_before;
}

const Stock::Held* Stock::Find(std::uint64_t step) const {
  const auto it = held_.find(step);
  return it == held_.end() ? nullptr : &it->second;
}

void Stock::AddTo(SessionStats& stats) const {
  stats.batches = taken_.batches;
  stats.examples = taken_.examples;
  stats.tokens = taken_.tokens;
  stats.bytes = taken_.bytes;
  stats.wire_bytes = taken_.wire_bytes;
  stats.in_place = taken_.in_place;
  stats.dropped = taken_.dropped;
  stats.pieces_lost = taken_.pieces_lost;
  stats.drop_reasons = taken_.drop_reasons;
  stats.buffered_batches = held_.size();
  stats.buffered_bytes = held_bytes_;
}

std::uint64_t Stock::batch_limit_bytes() const {
  const std::uint64_t estimate =
      attach_.admission() ? attach_.admission()->spec.max_batch_bytes() : 0;
  if (estimate == 0 || estimate > kUnknownBatchLimit) return kUnknownBatchLimit;
  return std::max(kLeastBatchLimit, 2 * estimate);
}

double Stock::MeanBytes() const {
  if (arrived_ > 0) return std::max(1.0, mean_bytes_);
  const std::uint64_t estimate = attach_.admission()->spec.max_batch_bytes();
  return static_cast<double>(
      std::min(estimate != 0 ? estimate : kGuessedBatchBytes, kUnknownBatchLimit));
}

std::uint64_t Stock::window() const {
  const double by_bytes = 1 + static_cast<double>(context_.ahead_bytes) / MeanBytes();
  std::uint64_t batches = std::min(kLargestWindow, kFirstWindow + kWindowGrowth * arrived_);
  if (by_bytes < static_cast<double>(batches)) batches = static_cast<std::uint64_t>(by_bytes);
  const std::uint64_t loop = loop_holds_ - std::min(loop_holds_, kFreeLoopHolds);
  batches = batches > loop + 1 ? batches - loop : 1;
  return std::min(batches, attach_.steps().end() - next_);
}

}  // namespace millrace::client
