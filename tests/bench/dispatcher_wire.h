// The dispatcher behind gRPC, in a process of its own, with the streams of a whole fleet.
//
// One thread of this process is all workers and consumers. It looks every half millisecond what is
// due and what has come, so it takes a small part of a core, and makes each figure longer by at
// most a millisecond.
#pragma once

#include "common/base/result.h"
#include "tests/bench/dispatcher_fleet.h"

namespace millrace::bench {

/// Times in seconds; CPU in seconds a second, for the time in which reports are paced.
struct WireResult {
  double all_welcome = 0;  // from the first Hello to the last Welcome
  double all_joined = 0;   // from the first worker until all consumers had their lists
  double paced_rate = 0;   // reports a second that were made
  double answer_rate = 0;  // lists a second that answered reports without one
  double p50 = 0;          // from when such a report was due until the list came
  double p99 = 0;
  double worst = 0;
  double late_p99 = 0;  // by how much reports were late because of this process; part of `p99`
  double late_worst = 0;
  double paced_cpu = 0;   // of the dispatcher's process
  double load_cpu = 0;    // of the thread that is the fleet
  double other_cpu = 0;   // of all other programs on the machine
  double status_p50 = 0;  // from when a status was due until it was there
  double status_worst = 0;
  double status_bytes = 0;
  double worker_bytes = 0;    // memory of the dispatcher for a worker and its stream
  double consumer_bytes = 0;  // memory of the dispatcher for a consumer and its stream
};

struct WireOptions {
  double rate = 4000;           // reports of consumers a second
  double seconds = 10;          // 0: nothing is measured over gRPC
  double polls_per_second = 2;  // of status; 0: none
};

/// Forks: call it before there are threads.
Result<WireResult> RunOverGrpc(const FleetOptions& fleet, const WireOptions& options);

}  // namespace millrace::bench
