// Knows what a session's loop waits for and since when, and counts how long it has waited for each
// cause.
//
// Not thread-safe: part of the session's state machine.
#pragma once

#include <array>
#include <string>

#include "client/session/machine/attach.h"
#include "client/session/machine/stats.h"
#include "client/session/machine/stock.h"
#include "client/session/machine/supply.h"

namespace millrace::client {

class Waits {
 public:
  Waits(const Attach& attach, const Stock& stock, const Supply& supply)
      : attach_(attach), stock_(stock), supply_(supply) {}

  void Start(Time now);
  /// To be called first at each event. The time since the last event counts for the cause that was
  /// found then.
  void CountUntil(Time now);
  /// The loop waits for the next step, or no longer does.
  void Set(bool waiting, Time now);
  /// This process stood still for `more`, which does not count as a wait for the present step.
  void StoodStill(Duration more) { waiting_since_ = waiting_since_ + more; }
  void OnTaken(Time now) { waiting_since_ = now; }
  /// Finds the present cause, after an event. Returns true if it has changed.
  bool Update(bool ended, Time now);

  bool waiting() const { return waiting_; }
  /// Since when the loop waits for the present step.
  Time waiting_since() const { return waiting_since_; }
  WaitCause cause() const { return cause_; }
  Time cause_since() const { return cause_since_; }
  /// The cause of the loop's wait, as a message says it.
  std::string Text() const;
  /// Sets the seconds that the loop had waited at the last event.
  void AddTo(SessionStats& stats) const { stats.waited_seconds = waited_seconds_; }
  /// Adds the present wait, and the time since the last event.
  void AddNow(SessionStats& stats, Time now) const;

 private:
  WaitCause FindCause(bool ended) const;

  const Attach& attach_;
  const Stock& stock_;
  const Supply& supply_;

  bool waiting_ = false;
  Time waiting_since_;
  WaitCause cause_ = WaitCause::kNone;
  Time cause_since_;
  Time counted_until_;
  std::array<double, kWaitCauses> waited_seconds_{};
};

}  // namespace millrace::client
