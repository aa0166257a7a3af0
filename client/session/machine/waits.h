// What a session's loop waits for, since when, and how long it has waited in all, by cause.
//
// Not thread-safe: part of the session's state machine.
#pragma once

#include <array>

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
  /// An event comes: the time that has passed goes to the cause as it was.
  void CountUntil(Time now);
  /// The loop waits for the next step, or no longer does.
  void Set(bool waiting, Time now);
  void OnTaken(Time now) { waiting_since_ = now; }
  /// Finds the cause anew, after an event. True where it is another one.
  bool Update(bool ended, Time now);

  bool waiting() const { return waiting_; }
  /// For the present step.
  Time waiting_since() const { return waiting_since_; }
  WaitCause cause() const { return cause_; }
  Time cause_since() const { return cause_since_; }
  /// What was waited until the last event.
  void AddTo(SessionStats& stats) const { stats.waited_seconds = waited_seconds_; }
  /// What is waited for now, and the time since the last event.
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
