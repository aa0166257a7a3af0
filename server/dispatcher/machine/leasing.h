// Takes the reports of consumers and grants leases. It keeps the window of each live session
// covered with leases on workers that can serve it.
//
// Not thread-safe: it belongs to the event loop.
#pragma once

#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "server/dispatcher/machine/sessions.h"
#include "server/dispatcher/machine/transition.h"
#include "server/dispatcher/machine/twin_leases.h"
#include "server/dispatcher/machine/worker_choice.h"

namespace millrace {

class Leasing {
 public:
  /// Both have to outlive it. `seed` is for the random choice between workers.
  Leasing(Transition& transition, Sessions& sessions, std::uint64_t seed)
      : transition_(transition),
        facts_(transition.facts()),
        options_(transition.options()),
        sessions_(sessions),
        random_(seed) {}

  /// Takes a session's report. This may end the session, and the others of its job with it.
  void Hear(Number id, v1::Report report);
  /// Grants every session the leases that its window lacks, because there may be more workers now.
  void FillAll();
  /// Why no worker can get leases of this session now; empty if one can.
  std::string NoWorkerWhy(const SessionFacts& session) const;

  /// How many leases of a worker moved to others lately.
  std::uint32_t MovedFrom(Number worker) const;

  /// Must be called before each update is applied.
  void WillApply(const Update& update);

 private:
  void Fill(Number id);
  /// Notes the events of a report that is about to be applied.
  void NoteReport(const SessionFacts& session, const v1::Report& report,
                  const std::vector<LeaseFacts>& held);
  /// Grants a copy of a late lease to an idle worker. A lease is late if its consumer waits for it
  /// although its worker lives. A session has at most one copy at a time. REQUIRES: the session has
  /// reported.
  void CopyLate(Number id);
  enum class Kind : std::uint8_t {
    kFirst,   // the worker builds the batches for this session
    kShared,  // a twin has these batches from the worker already
    kCopy,    // another worker has these batches, and is late
  };
  /// Removes steps from the front of `run`, at most `batches`, and grants them as a lease. The
  /// lease is added to `response`. Returns its steps.
  StepRun AddLease(Number id, const Worker& worker, std::uint32_t batches, Kind kind, StepRun& run,
                   v1::AttachResponse& response);
  /// Grants leases for the gaps of a session's window on workers of its set. REQUIRES: there is
  /// one.
  void FillGaps(const SessionFacts& session, const WorkerSet& set, std::uint32_t window,
                std::vector<StepRun> gaps);
  /// The worker for the first steps of `run`, and in `batches` how many it gets, at most as many as
  /// that was. A worker gets no batch that it has refused because a user's code fails. nullptr if
  /// every worker has refused the first one.
  const Worker* WorkerFor(const SessionFacts& session, const StepRun& run, WorkerChooser& workers,
                          const WorkerSet& set, std::uint32_t& batches);
  /// The worker with this number, if the session can share the batches that a twin has there, and
  /// the choice is fair; otherwise nullptr.
  const Worker* SharedWorker(Number id, const SessionFacts& session, const WorkerSet& set,
                             WorkerChooser& workers) const;
  /// Not ok if no worker is left that can serve the session; see CheckProspects.
  Status CheckHope(const SessionFacts& session, bool has_workers) const;
  std::string WhyNot(const Worker& worker, const SessionFacts& session) const;
  /// The workers that may get leases of the session. Valid until the next call.
  const WorkerSet& WorkersOf(const SessionFacts& session) const;

  Transition& transition_;
  const DispatcherFacts& facts_;
  const DispatcherOptions& options_;
  Sessions& sessions_;
  std::mt19937_64 random_;
  mutable WorkerSets worker_sets_;  // a cache of what follows from the facts
  TwinLeases twins_;                // another one
  struct Moved {
    std::uint32_t leases = 0;
    Time last;
  };
  std::map<Number, Moved> moved_;  // by the worker that had the leases; only for events
};

}  // namespace millrace
