// What is going on, from the dispatcher's facts: jobs, workers, consumers, and what each waits for.
#pragma once

#include "millrace/v1/dispatcher.pb.h"
#include "server/dispatcher/machine/dispatcher_machine.h"

namespace millrace {

/// Rates are differences of reports of the last minute. A job's figures sum replica 0 of its live
/// sessions, since they began; its place is that of the slowest. `now` is the time of the call.
v1::ServiceStatus BuildStatus(const DispatcherMachine& dispatcher, const DispatcherOptions& options,
                              Time now);

/// Events per second between the oldest and the newest sample; 0 where there are not two.
struct Rates {
  double batches = 0;
  double examples = 0;
  double bytes = 0;
  double waited_seconds = 0;  // total over the last minute, not per second
};
Rates RatesOf(const SessionFacts& session);

}  // namespace millrace
