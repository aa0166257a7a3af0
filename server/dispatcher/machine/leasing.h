// Reports and leases: keeps the window of each live session covered with leases of workers that can
// serve it.
//
// Not thread-safe: it belongs to the event loop.
#pragma once

#include <cstdint>
#include <random>
#include <string>

#include "server/dispatcher/machine/sessions.h"
#include "server/dispatcher/machine/transition.h"
#include "server/dispatcher/machine/worker_choice.h"

namespace millrace {

class Leasing {
 public:
  /// Both have to outlive it. `seed`: of the choice between workers.
  Leasing(Transition& transition, Sessions& sessions, std::uint64_t seed)
      : transition_(transition),
        facts_(transition.facts()),
        options_(transition.options()),
        sessions_(sessions),
        random_(seed) {}

  /// A session's report. It may end the session, and others of its job with it.
  void Hear(Number id, v1::Report report);
  /// Leases to every session what its window lacks: there may be workers that there were not.
  void FillAll();
  /// Why no worker can be leased to for this session now; empty where one can.
  std::string NoWorkerWhy(const SessionFacts& session) const;

  /// To be called before an update is applied.
  void WillApply(const Update& update);

 private:
  void Fill(Number id);
  /// A lease whose consumer waits while its worker lives goes to an idle worker as well: one at a
  /// time for a session. REQUIRES: the session has reported.
  void CopyLate(Number id);
  /// Grants a lease of the first at most `batches` steps of `run`, which are removed from it.
  void AddLease(Number id, const Worker& worker, std::uint32_t batches, bool copy, StepRun& run,
                v1::AttachResponse& response);
  /// Not ok where no worker is left that can serve the session; see CheckProspects.
  Status CheckHope(const SessionFacts& session, bool has_workers) const;
  std::string WhyNot(const Worker& worker, const SessionFacts& session) const;
  /// Good until the next call.
  const WorkerSet& WorkersOf(const SessionFacts& session) const;

  Transition& transition_;
  const DispatcherFacts& facts_;
  const DispatcherOptions& options_;
  Sessions& sessions_;
  std::mt19937_64 random_;
  mutable WorkerSets worker_sets_;  // what follows from the facts, kept
};

}  // namespace millrace
