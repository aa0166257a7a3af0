#include "server/dispatcher/machine/list_size.h"

#include <algorithm>
#include <cmath>

namespace millrace {

std::uint32_t BaseListSize(std::uint64_t workers, double consumers) {
  constexpr double kLists = 8;  // that a worker is in
  constexpr double kLeast = 8;
  const double size = std::ceil(kLists * static_cast<double>(workers) / std::max(1.0, consumers));
  return static_cast<std::uint32_t>(std::clamp<double>(size, kLeast, kMaxListMembers));
}

void ListSize::Need(std::uint32_t members, std::uint32_t limit, Time now) {
  members = std::min(members, kMaxListMembers);
  if (within_ == Time{} || std::max(members, members_) <= limit) within_ = now;
  if (now - within_ >= kAbove) {
    members_ = std::min(members_, limit);
    members = std::min(members, limit);
  }
  if (members >= members_) {
    members_ = members;
    needed_ = 0;
    ample_ = now;
    return;
  }
  needed_ = std::max(needed_, members);
  if (now - ample_ < kKeep) return;
  members_ = needed_;
  needed_ = members;
  ample_ = now;
}

bool ListSize::MayDouble(Time now) const {
  return members_ > 0 && members_ < kMaxListMembers &&
         (doubled_ == Time{} || now - doubled_ >= kDoubleEvery);
}

void ListSize::Double(Time now) {
  members_ = std::min(2 * members_, kMaxListMembers);
  doubled_ = ample_ = within_ = now;
  needed_ = 0;
}

void ListSize::ShiftTimes(Duration by) {
  ample_ = ample_ + by;
  if (within_ != Time{}) within_ = within_ + by;
  if (doubled_ != Time{}) doubled_ = doubled_ + by;
}

}  // namespace millrace
