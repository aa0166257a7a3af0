// The number of members that a consumer's list may have.
//
// Plain data; part of the dispatcher's facts. Not thread-safe.
#pragma once

#include <chrono>
#include <cstdint>

#include "common/base/protocol_limits.h"
#include "common/base/time.h"

namespace millrace {

/// The members that a list has if its consumer uses no more: 8 times its share of the workers, so
/// that each worker is in about 8 lists, and at least 8. `consumers` share the workers; 0 counts as
/// 1.
std::uint32_t BaseListSize(std::uint64_t workers, double consumers);

/// It grows at once, and shrinks when fewer members have sufficed for some time.
class ListSize {
 public:
  /// Members at the end leave if they were not needed for this long.
  static constexpr Duration kKeep = std::chrono::seconds(60);
  /// A size doubles at most so often.
  static constexpr Duration kDoubleEvery = std::chrono::seconds(1);

  /// A size above the limit is cut down to it after this time.
  static constexpr Duration kAbove = std::chrono::seconds(10);

  /// Notes that `members` are needed now, and that more than `limit` would only take time from
  /// other consumers. REQUIRES: `now` is not before the last call's `now`.
  void Need(std::uint32_t members, std::uint32_t limit, Time now);
  bool MayDouble(Time now) const;
  /// REQUIRES: MayDouble.
  void Double(Time now);
  void ShiftTimes(Duration by);

  /// At most kMaxListMembers.
  std::uint32_t members() const { return members_; }

 private:
  std::uint32_t members_ = 0;
  std::uint32_t needed_ = 0;  // the most members since `ample_`
  Time ample_;                // since when fewer than `members_` are needed
  Time within_;               // when neither size nor need was above the limit, the last time
  Time doubled_;
};

}  // namespace millrace
