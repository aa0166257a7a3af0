// Which workers may build for a consumer.
//
// Free functions over facts; thread-safe.
#pragma once

#include <cstdint>

#include "server/dispatcher/machine/dispatcher_options.h"
#include "server/dispatcher/machine/facts.h"

namespace millrace {

/// Whether a worker was heard recently enough to be asked for steps.
bool IsHeard(const Worker& worker, Time now, const DispatcherOptions& options);

/// Fills `out` with the worker as consumers see it.
void ToProto(const Worker& worker, v1::WorkerRef* out);

/// The totals of a worker since its start, as it reports them.
struct BuildTotals {
  double seconds = 0;  // of builder threads, all stages together
  std::uint64_t batches = 0;
};
BuildTotals BuildTotalsOf(const v1::WorkRequest& report);

/// Whether a consumer's batches may come from this worker: it is heard and does not drain, its plan
/// is ready, and the consumer can reach it. The failures that the consumer has reported are not
/// considered here.
bool IsUsable(const Worker& worker, const SessionFacts& session, Time now,
              const DispatcherOptions& options);

/// Whether a worker that fails a consumer like this can build nothing for it any more. A worker
/// that has refused single batches may build the others.
bool FailsForGood(const FailingWorker& failing);
/// Whether this worker fails the session for good, by the session's reports.
bool FailsForGood(const SessionFacts& session, WorkerId worker);

}  // namespace millrace
