#include "server/dispatcher/machine/measured_rates.h"

#include <algorithm>
#include <cmath>

namespace millrace {
namespace {

/// No step is shorter, whatever a report says.
constexpr double kShortestStep = 1e-6;

/// A figure of a worker counts for 1/e of what it did, after this many seconds.
constexpr double kMemorySeconds = 30;
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
  if (last_ && totals.at <= last_->at) return;
  if (!last_ || totals.batches != last_->batches || totals.waits) taken_ = totals;
  last_ = totals;
  if (totals.step_seconds <= 0) return;
  const double under_way =
      ToSeconds(totals.at - taken_.at) - Increase(taken_.waited_seconds, totals.waited_seconds);
  batches_per_second_ = 1 / std::max({kShortestStep, totals.step_seconds, under_way});
}

void WorkerRate::Add(const WorkerTotals& totals) {
  if (last_ && totals.at <= last_->at) return;
  const WorkerTotals before = last_.value_or(totals);
  last_ = totals;
  const double seconds = ToSeconds(totals.at - before.at);
  const double kept = std::exp(-seconds / kMemorySeconds);
  const auto add = [kept](double& sum, double more) { sum = sum * kept + more; };
  add(built_, totals.built > before.built ? static_cast<double>(totals.built - before.built) : 0);
  add(build_seconds_, Increase(before.build_seconds, totals.build_seconds));
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
  return std::max(1u, last_->threads) / seconds_per_batch_;
}

}  // namespace millrace
