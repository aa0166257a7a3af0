// Brings sessions from Hello to Welcome. It recognises sessions, gives them their plans, and
// decides which may be live in a job. Sessions are rivals if they want the same rank. Live sessions
// hold a job against sessions that do not fit them.
//
// Not thread-safe: it belongs to the event loop.
#pragma once

#include <string>
#include <string_view>

#include "server/dispatcher/machine/job_records.h"
#include "server/dispatcher/machine/plan_requests.h"
#include "server/dispatcher/machine/reports.h"
#include "server/dispatcher/machine/sessions.h"
#include "server/dispatcher/machine/transition.h"

namespace millrace {

class Admission {
 public:
  /// The components that Admission calls. All of them have to outlive it.
  struct Components {
    Sessions& sessions;
    PlanRequests& plans;
    ColumnWork& columns;
    JobRecords& records;
    Reports& reports;
  };
  Admission(Transition& transition, const Components& components)
      : transition_(transition),
        facts_(transition.facts()),
        options_(transition.options()),
        components_(components) {}

  /// Takes the first message of a consumer's stream: from a new session, or from one that comes
  /// back. REQUIRES: `hello` passed CheckHello, and names no number or term of another dispatcher;
  /// the stream is open.
  void Greet(StreamId stream, const v1::Hello& hello);
  /// Decides on all sessions of a job: each is admitted, waits or ends. Writes the job's record.
  void Reconcile(const std::string& job);
  /// Marks the jobs in which a session waits.
  void Tick();

 private:
  /// Closes the stream of a consumer that gets no session.
  void TurnAway(StreamId stream, const v1::Hello& hello, const Status& why);
  /// Notes that a job begins, or that a consumer resumes. REQUIRES: the session is not live yet.
  void NoteWelcome(const SessionFacts& session);
  /// Ok if the stream's peer may take part in the job: nobody else began it.
  Status CheckOwner(StreamId stream, const std::string& job) const;
  /// Ok if there is room for one more session.
  Status CheckLimits(const v1::Hello& hello) const;
  /// Gives the session its plan if that is compiled. False if the session has to wait, or has
  /// ended because the plan does not fit it.
  bool Plan(SessionId id);
  /// REQUIRES: the session has its plan.
  void ReconcileSession(SessionId id);
  void Welcome(SessionId id);
  /// Whether other ranks of the job are live.
  bool OthersLive(const SessionFacts& session) const;
  /// A session for the same rank with a higher number; nullptr if there is none.
  const SessionFacts* HigherRival(const SessionFacts& session) const;
  /// A live session that holds the job, so that `session` cannot join; nullptr if there is none.
  const SessionFacts* Holder(const SessionFacts& session) const;
  /// The canonical text of the pipeline of a cursor; empty if it is not known.
  std::string_view KnownCanonical(const std::string& cursor) const;

  Transition& transition_;
  const DispatcherFacts& facts_;
  const DispatcherOptions& options_;
  const Components components_;
};

}  // namespace millrace
