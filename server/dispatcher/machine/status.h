// The status of the service, from the dispatcher's facts: its jobs, workers and consumers, and what
// each of them waits for.
#pragma once

#include "millrace/v1/dispatcher.pb.h"
#include "server/dispatcher/machine/dispatcher_machine.h"

namespace millrace {

/// Rates come from the reports of the last minute. The figures of a job are sums over its live
/// sessions with replica 0, and its dropped examples are counted since these began. Its place is
/// that of its slowest live session. `now` is the time of the call.
v1::ServiceStatus BuildStatus(const DispatcherMachine& dispatcher, const DispatcherOptions& options,
                              Time now);

/// Figures per second between the oldest and the newest sample; 0 if there are fewer than two.
struct Rates {
  double batches = 0;
  double examples = 0;
  double bytes = 0;
  double waited_seconds = 0;  // total over the last minute, not per second
};
Rates RatesOf(const SessionFacts& session);

}  // namespace millrace
