// The context that the components of a session's machine share: the options, the log, the outlet
// for actions, and marks for changes that others have yet to get.
//
// Not thread-safe: part of the session's state machine.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "client/session/machine/session_actions.h"
#include "common/base/log.h"

namespace millrace::client {

/// Collects the actions of all components, in order.
class ActionOutlet {
 public:
  /// A new name for a stream that is about to be opened.
  StreamId NewStream() { return ++last_stream_; }
  void Put(Action action) { actions_.push_back(std::move(action)); }
  std::vector<Action> Take() { return std::exchange(actions_, {}); }

 private:
  StreamId last_stream_ = 0;
  std::vector<Action> actions_;
};

/// Marks that something has changed: since the last report to the dispatcher, or since steps were
/// last dealt, and streams and credit given.
class StaleMarks {
 public:
  void MarkReport() { report_ = true; }
  void Reported() { report_ = false; }
  bool report() const { return report_; }

  /// Grants follow when a worker has little left to do, or after a short pause, so that one grant
  /// covers many batches.
  void MarkGrants() { grants_ = true; }
  /// Grants follow at once, since a worker came or went, or the loop's next step is lacking.
  void MarkGrantsDue() { grants_due_ = true; }
  void Granted() { grants_ = grants_due_ = false; }
  bool grants() const { return grants_; }
  bool grants_due() const { return grants_due_; }

 private:
  bool report_ = true;
  bool grants_ = true;
  bool grants_due_ = true;
};

/// There is one for each session. It outlives the components.
struct SessionContext {
  const SessionMachineOptions options;
  const std::shared_ptr<Logger> logger;
  ActionOutlet actions;
  StaleMarks stale;
  std::uint64_t ahead_bytes = options.prefetch_bytes;  // as SessionTuning sets it
};

}  // namespace millrace::client
