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

}  // namespace millrace
