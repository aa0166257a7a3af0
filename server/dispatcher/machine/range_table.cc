#include "server/dispatcher/machine/range_table.h"

#include <algorithm>

#include "common/base/protocol_limits.h"

namespace millrace {

RangeTable::RangeTable(std::uint64_t examples)
    : examples_(examples), done_((examples + kMeasuredRange - 1) / kMeasuredRange) {}

std::uint64_t RangeTable::SizeOf(std::uint64_t range) const {
  return std::min(kMeasuredRange, examples_ - range * kMeasuredRange);
}

std::vector<std::uint64_t> RangeTable::Open(std::uint64_t most) const {
  std::vector<std::uint64_t> open;
  for (const std::uint64_t range : returned_) {
    if (open.size() >= most) return open;
    open.push_back(range);
  }
  for (std::uint64_t range = next_; range < ranges() && open.size() < most; ++range) {
    if (!done_[range]) open.push_back(range);
  }
  return open;
}

void RangeTable::Give(std::uint64_t range, WorkerId worker) {
  given_[worker].insert(range);
  if (returned_.erase(range) > 0) return;
  // The ranges that are left behind were measured before they were given.
  next_ = range + 1;
}

void RangeTable::TakeBack(WorkerId worker) {
  const auto given = given_.find(worker);
  if (given == given_.end()) return;
  returned_.insert(given->second.begin(), given->second.end());
  given_.erase(given);
}

void RangeTable::Done(std::uint64_t range) {
  done_[range] = true;
  measured_ += SizeOf(range);
  returned_.erase(range);
  for (auto given = given_.begin(); given != given_.end(); ++given) {
    if (given->second.erase(range) == 0) continue;
    if (given->second.empty()) given_.erase(given);
    return;
  }
}

}  // namespace millrace
