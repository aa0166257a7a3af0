// What a session is told, but for its leases, and how it ends.
//
// Not thread-safe: it belongs to the event loop.
#pragma once

#include <string>

#include "server/dispatcher/machine/transition.h"

namespace millrace {

class Sessions {
 public:
  /// `transition` has to outlive it.
  explicit Sessions(Transition& transition)
      : transition_(transition), facts_(transition.facts()), options_(transition.options()) {}

  /// All that a live session needs to begin. It does no harm if the session has had it before.
  void SendWelcome(Number id);
  /// Says what the session waits for, once for each reason.
  void Wait(Number id, const std::string& why);
  /// The session is over: its consumer is told why.
  void Fail(Number id, const Status& status);
  /// Ends all live sessions of the session's job.
  void FailJob(Number id, const Status& status);
  /// The session is over as its consumer wants it: a bye on `stream`.
  void Leave(Number id, StreamId stream);
  /// All sessions of the job are ended by an operator, also those that are away. NotFound, naming
  /// the jobs there are.
  Result<v1::EndJobResponse> TurnOut(const std::string& job);
  /// Ends the sessions that have been silent for too long.
  void Tick();
  /// Tells every consumer that this dispatcher lives.
  void Pulse();

 private:
  void End(Number id);

  Transition& transition_;
  const DispatcherFacts& facts_;
  const DispatcherOptions& options_;
};

}  // namespace millrace
