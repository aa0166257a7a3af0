// Reports now and then that a process of a plugin is still waited for.
//
// Not thread-safe.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "common/system/clock.h"

namespace millrace {

/// Reports how long a process has been waited for, and for what: "its import". Called by the
/// waiting thread.
using OnPluginWait = std::function<void(std::string_view what, Duration waited)>;

class WaitNotes {
 public:
  static constexpr Duration kEach = std::chrono::seconds(10);

  /// The wait begins now. `on_wait` may be null.
  WaitNotes(OnPluginWait on_wait, std::shared_ptr<const Clock> clock, std::string what)
      : on_wait_(std::move(on_wait)),
        clock_(std::move(clock)),
        what_(std::move(what)),
        begin_(clock_->Now()),
        next_(begin_ + kEach) {}

  /// Called during the wait.
  void Tick() {
    const Time now = clock_->Now();
    if (!on_wait_ || now < next_) return;
    next_ = now + kEach;
    on_wait_(what_, now - begin_);
  }
  /// From now on the wait is for something else.
  void Begin(std::string what) {
    what_ = std::move(what);
    begin_ = clock_->Now();
    next_ = begin_ + kEach;
  }
  Duration waited() const { return clock_->Now() - begin_; }

 private:
  OnPluginWait on_wait_;
  std::shared_ptr<const Clock> clock_;
  std::string what_;
  Time begin_;
  Time next_;
};

}  // namespace millrace
