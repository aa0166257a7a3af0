// Takes the reports of consumers: checks them, and draws the consequences for the session. Its list
// may grow (worker_lists.h), or no worker can build for it, now or ever.
//
// Not thread-safe: it belongs to the event loop.
#pragma once

#include <string>

#include "server/dispatcher/machine/sessions.h"
#include "server/dispatcher/machine/transition.h"
#include "server/dispatcher/machine/worker_lists.h"

namespace millrace {

class Reports {
 public:
  /// All have to outlive it.
  Reports(Transition& transition, Sessions& sessions, WorkerLists& lists)
      : transition_(transition),
        facts_(transition.facts()),
        options_(transition.options()),
        sessions_(sessions),
        lists_(lists) {}

  /// Takes a session's report. This may end the session, and with it all sessions of its job.
  void Hear(SessionId id, v1::Report report);
  /// Why no worker can build for this session now; empty if one can.
  std::string NoWorkerWhy(const SessionFacts& session) const;

 private:
  /// Notes the events of a report that is about to be applied.
  void Note(const SessionFacts& session, const v1::Report& report);
  /// Sends a session the reason why it gets nothing, or ends its job if no worker will ever serve
  /// it. REQUIRES: the session is live and has reported.
  void Answer(SessionId id);
  /// Not ok if no worker is left that can serve the session; see CheckProspects.
  Status CheckViability(const SessionFacts& session, bool has_members) const;
  std::string WhyNot(const Worker& worker, const SessionFacts& session) const;

  Transition& transition_;
  const DispatcherFacts& facts_;
  const DispatcherOptions& options_;
  Sessions& sessions_;
  WorkerLists& lists_;
};

}  // namespace millrace
