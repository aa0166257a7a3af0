// Workers: who they are, which plans they shall keep, and whose datasets differ.
//
// Not thread-safe: it belongs to the event loop.
#pragma once

#include <set>
#include <string>

#include "server/dispatcher/machine/leasing.h"
#include "server/dispatcher/machine/transition.h"

namespace millrace {

class Fleet {
 public:
  /// Both have to outlive it. `leasing` is told when there is more to lease to.
  Fleet(Transition& transition, Leasing& leasing)
      : transition_(transition),
        facts_(transition.facts()),
        options_(transition.options()),
        leasing_(leasing) {}

  /// A worker's report. REQUIRES: it passed CheckWorkRequest, and it names no other dispatcher's
  /// number or term; the stream is open.
  void OnReport(StreamId stream, const v1::WorkRequest& request);
  /// Tells all workers what they shall keep.
  void RespondAll();
  /// NotFound, naming the workers there are; FailedPrecondition where several have the name.
  Result<v1::DrainWorkerResponse> Drain(const std::string& name);
  /// Forgets the workers that have been silent for too long.
  void Tick();
  /// Tells every worker that this dispatcher lives, and what it shall keep where it does not.
  void Pulse();

 private:
  Result<Number> Recognise(const v1::WorkRequest& request);
  void CompareFiles(Number id, const v1::WorkRequest& request);
  void Respond(const Worker& worker);
  v1::WorkResponse ResponseTo(const Worker& worker) const;
  /// A plan of a job that may still run from before the dispatcher's start, until it is compiled
  /// here.
  void KeepUnknownPlans(const Worker& worker, std::set<std::string>& told,
                        v1::WorkResponse& response) const;
  void Drop(Number id);

  Transition& transition_;
  const DispatcherFacts& facts_;
  const DispatcherOptions& options_;
  Leasing& leasing_;
};

}  // namespace millrace
