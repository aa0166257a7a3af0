// What every part of a session's machine is given: the options, the log, the outlet for actions,
// and the marks of what has to be told again.
//
// Not thread-safe: part of the session's state machine.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "client/session/machine/session_actions.h"
#include "common/base/log.h"

namespace millrace::client {

/// Where the parts put what is to be done, in order.
class ActionOutlet {
 public:
  /// The name of a stream that is to be opened.
  StreamId NewStream() { return ++last_stream_; }
  void Put(Action action) { actions_.push_back(std::move(action)); }
  std::vector<Action> Take() { return std::exchange(actions_, {}); }

 private:
  StreamId last_stream_ = 0;
  std::vector<Action> actions_;
};

/// What has changed since the dispatcher had its last report, and since room, credit and streams
/// were given last.
class StaleMarks {
 public:
  void MarkReport() { report_ = true; }
  void Reported() { report_ = false; }
  bool report() const { return report_; }

  /// Grants follow when a worker has little left to do, or a little later for many batches
  /// together.
  void MarkGrants() { grants_ = true; }
  /// Grants follow at once: a worker or a lease came or went.
  void MarkGrantsDue() { grants_due_ = true; }
  void Granted() { grants_ = grants_due_ = false; }
  bool grants() const { return grants_; }
  bool grants_due() const { return grants_due_; }

 private:
  bool report_ = true;
  bool grants_ = true;
  bool grants_due_ = true;
};

/// One for each session; it outlives the parts.
struct SessionContext {
  const SessionMachineOptions options;
  const std::shared_ptr<Logger> logger;
  ActionOutlet actions;
  StaleMarks stale;
};

}  // namespace millrace::client
