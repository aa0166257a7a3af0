// Takes the reports of consumers: checks them, and says what follows for the session. Its list may
// grow (worker_lists.h), nobody may be able to build for it, or nobody ever will.
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

  /// Takes a session's report. This may end the session, and the others of its job with it.
  void Hear(Number id, v1::Report report);
  /// Why no worker can build for this session now; empty if one can.
  std::string NoWorkerWhy(const SessionFacts& session) const;

 private:
  /// Notes the events of a report that is about to be applied.
  void Note(const SessionFacts& session, const v1::Report& report);
  /// Tells a session why it gets nothing, or ends its job if no worker will ever serve it.
  /// REQUIRES: the session is live and has reported.
  void Answer(Number id);
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
