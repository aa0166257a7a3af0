#include "server/dispatcher/machine/measured_rates.h"

#include <algorithm>
#include <cmath>

namespace millrace {
namespace {

/// A training loop counts as busy for at least this part of its time, even if it only waits.
constexpr double kLeastBusyShare = 0.01;
/// If a loop waits for at least this part of a window and takes nothing, the window says nothing.
constexpr double kOnlyWaits = 0.5;

/// A figure of a worker counts for 1/e of what it did, after this many seconds.
constexpr double kMemorySeconds = 30;
/// Builder threads that build for this part of their time are asked for more.
constexpr double kBusyShare = 0.9;
/// A busy worker may send less than it builds, because it builds ahead. At least this
/// part of what it builds counts.
constexpr double kLeastSentShare = 0.5;
/// A build of a batch that takes less or more seconds than this is a mistake of the report.
constexpr double kShortestBuild = 1e-9;
constexpr double kLongestBuild = 1e9;

/// The increase of a total that never goes back and is finite; otherwise 0.
double Increase(double before, double now) {
  const double more = now - before;
  return std::isfinite(more) ? std::max(0.0, more) : 0;
}

}  // namespace

void LoopDemand::Add(const LoopTotals& totals) {
  if (!samples_.empty()) {
    if (totals.at <= samples_.back().at) return;
    if (totals.batches < samples_.back().batches) samples_.clear();
  }
  samples_.push_back(totals);
  while (samples_.size() > 2 && totals.at - samples_[1].at >= kWindow) {
    samples_.erase(samples_.begin());
  }
  const LoopTotals& first = samples_.front();
  if (totals.at - first.at < kWindow) return;
  const double seconds = ToSeconds(totals.at - first.at);
  const double waited = Increase(first.waited_seconds, totals.waited_seconds);
  const auto batches = static_cast<double>(totals.batches - first.batches);
  if (batches == 0 && waited >= seconds * kOnlyWaits) return;
  batches_per_second_ = batches / std::max(seconds - waited, seconds * kLeastBusyShare);
}

void WorkerRate::Add(const WorkerTotals& totals) {
  if (last_ && totals.at <= last_->at) return;
  const WorkerTotals before = last_.value_or(totals);
  last_ = totals;
  const double seconds = ToSeconds(totals.at - before.at);
  const double kept = std::exp(-seconds / kMemorySeconds);
  const auto add = [kept](double& sum, double more) { sum = sum * kept + more; };
  add(seconds_, seconds);
  add(built_, totals.built > before.built ? static_cast<double>(totals.built - before.built) : 0);
  add(build_seconds_, Increase(before.build_seconds, totals.build_seconds));
  add(sent_, totals.sent > before.sent ? static_cast<double>(totals.sent - before.sent) : 0);
  const auto take = [this](double seconds_of_all, double batches) {
    const double each = seconds_of_all / batches;
    if (each >= kShortestBuild && each <= kLongestBuild) seconds_per_batch_ = each;
  };
  if (built_ >= 1) {
    take(build_seconds_, built_);
  } else if (seconds_per_batch_ == 0 && totals.built > 0) {
    take(totals.build_seconds, static_cast<double>(totals.built));
  }
}

std::optional<double> WorkerRate::batches_per_second() const {
  if (seconds_per_batch_ == 0) return std::nullopt;
  const double threads = std::max(1u, last_->threads);
  const double could = threads / seconds_per_batch_;
  const bool busy =
      seconds_ >= kMemorySeconds / 2 && build_seconds_ >= kBusyShare * threads * seconds_;
  return busy ? std::clamp(sent_ / seconds_, kLeastSentShare * could, could) : could;
}

}  // namespace millrace
