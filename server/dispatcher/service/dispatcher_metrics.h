// A dispatcher's metrics, from its facts and its counters.
#pragma once

#include "common/base/metrics.h"
#include "server/dispatcher/machine/counters.h"
#include "server/dispatcher/machine/dispatcher_machine.h"

namespace millrace {

/// Adds all metrics of a dispatcher, except metrics of its process. `now` is the time of the call.
void AddDispatcherMetrics(const DispatcherMachine& dispatcher, const DispatcherOptions& options,
                          const DispatcherCounters& counters, Time now, double unix_seconds,
                          MetricSet& metrics);

}  // namespace millrace
