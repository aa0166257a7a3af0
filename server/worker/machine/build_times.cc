#include "server/worker/machine/build_times.h"

#include <algorithm>

namespace millrace {
namespace {

constexpr double kOld = 0.8;  // weight of the builds before the last one

void AddTo(PlanBuilds& builds, double seconds, std::uint64_t bytes) {
  builds.time.Add(seconds);
  const auto last = static_cast<double>(bytes);
  builds.bytes = builds.bytes == 0 ? last : kOld * builds.bytes + (1 - kOld) * last;
}

}  // namespace

void BuildTime::Add(double seconds) {
  const auto [low, high] = std::minmax({seconds, last_});
  if (mean_ == 0) {
    mean_ = seconds;
  } else if (low > 2 * mean_ || high < mean_ / 2) {
    mean_ = (low + high) / 2;
  } else {
    mean_ = kOld * mean_ + (1 - kOld) * seconds;
  }
  last_ = seconds;
}

void BuildTimes::Add(const std::string& plan, double seconds, std::uint64_t bytes) {
  AddTo(plans_[plan], seconds, bytes);
  AddTo(all_, seconds, bytes);
}

PlanBuilds BuildTimes::Of(const std::string& plan) const {
  const auto found = plans_.find(plan);
  return found == plans_.end() ? PlanBuilds{} : found->second;
}

}  // namespace millrace
