// A dispatcher's metrics, from its facts and its tally.
#pragma once

#include "common/base/metrics.h"
#include "server/dispatcher/machine/dispatcher_machine.h"
#include "server/dispatcher/machine/tally.h"

namespace millrace {

/// Adds all metrics of a dispatcher but those of its process. `now` is the time of the call.
void AddDispatcherMetrics(const DispatcherMachine& dispatcher, const DispatcherOptions& options,
                          const DispatcherTally& tally, Time now, double unix_seconds,
                          MetricSet& metrics);

/// How many workers would keep the sessions from waiting: the batches per second that their loops
/// take while they do not wait, over what a present worker can build, rounded up; at least 1, at
/// most twice `present`. `present` where nothing is known yet. `worker_rate` is in batches per
/// second, 0 where unknown.
double DesiredWorkers(const std::vector<const SessionFacts*>& sessions, double worker_rate,
                      std::size_t present);

}  // namespace millrace
