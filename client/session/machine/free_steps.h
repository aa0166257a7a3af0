// The steps of a session that are free: neither held nor asked of a worker.
//
// All steps from some step on are free. Below it, few are: those that a slow worker left out, or
// that were taken back. So a free step is found without a look at those that are not.
//
// Not thread-safe: part of the session's state machine.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <set>

namespace millrace::client {

class FreeSteps {
 public:
  /// The first `next` steps are past, and not free.
  void Pass(std::uint64_t next) {
    begin_ = std::max(begin_, next);
    holes_.erase(holes_.begin(), holes_.lower_bound(begin_));
    rest_ = std::max(rest_, begin_);
  }
  /// The step is free no longer. Steps that are past may be taken, too.
  void Take(std::uint64_t step) {
    if (step < rest_) {
      holes_.erase(step);
      return;
    }
    // In the usual case, `step` is rest_.
    for (; rest_ < step; ++rest_) holes_.insert(holes_.end(), rest_);
    ++rest_;
  }
  /// The step is free again, unless it is past.
  void Free(std::uint64_t step) {
    if (step >= begin_ && step < rest_) holes_.insert(step);
  }

  bool IsFree(std::uint64_t step) const { return step >= rest_ || holes_.contains(step); }
  /// The free step that comes after `skipped` others.
  std::uint64_t At(std::uint64_t skipped) const {
    if (skipped >= holes_.size()) return rest_ + (skipped - holes_.size());
    return *std::next(holes_.begin(), static_cast<std::ptrdiff_t>(skipped));
  }

 private:
  std::uint64_t begin_ = 0;
  std::uint64_t rest_ = 0;         // from here on all steps are free
  std::set<std::uint64_t> holes_;  // free steps before rest_
};

}  // namespace millrace::client
