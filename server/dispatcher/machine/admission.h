// From Hello to Welcome: recognises sessions, plans them, and settles who may be live in a job
// among rivals for a rank and holders of the job.
//
// Not thread-safe: it belongs to the event loop.
#pragma once

#include <string>
#include <string_view>

#include "server/dispatcher/machine/job_records.h"
#include "server/dispatcher/machine/leasing.h"
#include "server/dispatcher/machine/plan_requests.h"
#include "server/dispatcher/machine/sessions.h"
#include "server/dispatcher/machine/transition.h"

namespace millrace {

class Admission {
 public:
  /// The parts that it calls; all have to outlive it.
  struct Parts {
    Sessions& sessions;
    PlanRequests& plans;
    JobRecords& records;
    Leasing& leasing;
  };
  Admission(Transition& transition, const Parts& parts)
      : transition_(transition),
        facts_(transition.facts()),
        options_(transition.options()),
        parts_(parts) {}

  /// The first message of a consumer's stream: of a new session, or of one that comes back.
  /// REQUIRES: it passed CheckHello, and it names no other dispatcher's number or term; the stream
  /// is open.
  void Greet(StreamId stream, const v1::Hello& hello);
  /// Brings a job to where its sessions want it: lets them in, lets them wait, writes its record.
  void Settle(const std::string& job);
  /// Unsettles the jobs in which a session waits.
  void Tick();

 private:
  /// Whether there is room for one more session.
  Status CheckLimits(const v1::Hello& hello) const;
  /// Whether the session has its plan now. It may end the session.
  bool Plan(Number id);
  /// REQUIRES: the session has its plan.
  void SettleSession(Number id);
  void Welcome(Number id);
  /// Whether other ranks of the job are live.
  bool OthersLive(const SessionFacts& session) const;
  const SessionFacts* HigherRival(const SessionFacts& session) const;
  /// A live session of the job that `session` cannot join.
  const SessionFacts* Holder(const SessionFacts& session) const;
  std::string_view KnownCanonical(const std::string& cursor) const;

  Transition& transition_;
  const DispatcherFacts& facts_;
  const DispatcherOptions& options_;
  const Parts parts_;
};

}  // namespace millrace
