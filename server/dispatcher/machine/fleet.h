// The workers: their identities, the plans that they have to keep, and their datasets that differ
// from ours.
//
// Not thread-safe: it belongs to the event loop.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "server/dispatcher/machine/column_work.h"
#include "server/dispatcher/machine/transition.h"

namespace millrace {

class Fleet {
 public:
  /// Both have to outlive it. `columns` gets the ranges that workers have measured.
  Fleet(Transition& transition, ColumnWork& columns)
      : transition_(transition),
        facts_(transition.facts()),
        options_(transition.options()),
        columns_(columns) {}

  /// Takes a worker's report. REQUIRES: `request` passed CheckWorkRequest, and names no number or
  /// term of another dispatcher; the stream is open.
  void OnReport(StreamId stream, const v1::WorkRequest& request);
  /// Sends all workers the plans that they have to keep, and the ranges that they have to measure.
  void RespondAll();
  /// Drains a worker, by its name, number or address. NotFound, with the known workers;
  /// FailedPrecondition if several have the name.
  Result<v1::DrainWorkerResponse> Drain(const std::string& name);
  /// Takes a drain back. The same errors; FailedPrecondition also if the worker does not drain.
  Result<v1::UndrainWorkerResponse> Undrain(const std::string& name);
  /// Forgets the workers that have been silent for too long.
  void Tick();
  /// Sends a worker a heartbeat, with the plans that it has to keep if it does not have just these.
  void Heartbeat(const Worker& worker);

 private:
  /// The worker that an operator means.
  Result<const Worker*> Named(const std::string& name) const;
  Result<WorkerId> Recognise(const v1::WorkRequest& request);
  void CompareFiles(WorkerId id, const v1::WorkRequest& request);
  void Respond(const Worker& worker);
  v1::WorkResponse ResponseTo(const Worker& worker) const;
  /// Tells the worker to keep the plans of jobs that ran before the dispatcher's start and may
  /// still run. This is needed until those plans are compiled here.
  void KeepUnknownPlans(const Worker& worker, std::set<std::string>& told,
                        v1::WorkResponse& response) const;
  void Drop(WorkerId id);
  /// Notes that workers are silent.
  void NoteLost(const std::vector<WorkerId>& ids);

  Transition& transition_;
  const DispatcherFacts& facts_;
  const DispatcherOptions& options_;
  ColumnWork& columns_;
  std::set<WorkerId> lost_;  // workers that were noted as lost, and not heard since
};

}  // namespace millrace
