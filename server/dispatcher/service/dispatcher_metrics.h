// A dispatcher's metrics, from its facts and its tally.
#pragma once

#include "common/base/metrics.h"
#include "server/dispatcher/machine/dispatcher_machine.h"
#include "server/dispatcher/machine/tally.h"

namespace millrace {

/// Adds all metrics of a dispatcher, except those of its process. `now` is the time of the call.
void AddDispatcherMetrics(const DispatcherMachine& dispatcher, const DispatcherOptions& options,
                          const DispatcherTally& tally, Time now, double unix_seconds,
                          MetricSet& metrics);

/// How many workers would keep the sessions from waiting. This is the batches per second that their
/// training loops take while they do not wait, divided by `worker_rate` and rounded up. It is at
/// least 1 and at most twice `present`. If nothing is known yet, it is `present`, but at least 1.
/// `worker_rate` is the batches per second that one worker can build; 0 if that is not known.
double DesiredWorkers(const std::vector<const SessionFacts*>& sessions, double worker_rate,
                      std::size_t present);

}  // namespace millrace
