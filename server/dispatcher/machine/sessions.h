// Sends sessions all messages except changes of their lists, and ends them.
//
// Not thread-safe: it belongs to the event loop.
#pragma once

#include <optional>
#include <string>

#include "server/dispatcher/machine/transition.h"
#include "server/dispatcher/machine/worker_lists.h"

namespace millrace {

class Sessions {
 public:
  /// Both have to outlive it.
  Sessions(Transition& transition, WorkerLists& lists)
      : transition_(transition),
        facts_(transition.facts()),
        options_(transition.options()),
        lists_(lists) {}

  /// Sends all data that a live session needs to begin, with its list. A second Welcome does no
  /// harm.
  void SendWelcome(SessionId id);
  /// Sends the session the reason why it waits. A reason is not repeated until it changes.
  void Wait(SessionId id, const std::string& why);
  /// Ends the session, and sends its consumer the reason. `kind` is the kind of its event for
  /// people.
  void Fail(SessionId id, const Status& status, EventKind kind);
  /// Ends all live sessions of the session's job.
  void FailJob(SessionId id, const Status& status);
  /// Ends the session because its consumer has said bye on `stream`. `error`: why the consumer
  /// ended; empty: its user left.
  void Leave(SessionId id, StreamId stream, const std::string& error);
  /// Ends all sessions of the job for an operator, also absent ones. NotFound, with the jobs that
  /// have sessions, if this job has no session. If `owner` is set, only jobs that this peer began
  /// are ended and named: PermissionDenied for others. `who`: the name of the operator; empty: not
  /// proved.
  Result<v1::EndJobResponse> TurnOut(const std::string& job,
                                     const std::optional<std::string>& owner = {},
                                     const std::string& who = {});
  /// Ends the sessions that have been silent for too long.
  void Tick();
  /// Sends a consumer a heartbeat.
  void Heartbeat(const SessionFacts& session);

 private:
  /// Ends the session with a status, without an event.
  void Close(SessionId id, const Status& status, v1::JobEnd end);
  void End(SessionId id, v1::JobEnd end);

  Transition& transition_;
  const DispatcherFacts& facts_;
  const DispatcherOptions& options_;
  WorkerLists& lists_;
};

}  // namespace millrace
