// The dispatcher behind gRPC, in a process of its own, with the streams of a whole fleet.
#pragma once

#include "common/base/result.h"
#include "tests/bench/dispatcher_fleet.h"

namespace millrace::bench {

struct WireResult {
  double all_welcome = 0;  // seconds from the first Hello to the last Welcome
  double paced_rate = 0;   // leases a second while reports came at `rate`
  double p50 = 0;          // seconds from when a report was due until its leases came
  double p99 = 0;
  double worst = 0;
  double paced_cpu = 0;  // CPU seconds a second of the dispatcher's process
  double most_rate = 0;  // leases a second if consumers report as soon as they can
  double most_cpu = 0;
  double worker_bytes = 0;    // memory of the dispatcher for a worker and its stream
  double consumer_bytes = 0;  // memory of the dispatcher for a consumer and its stream
};

/// Forks: call it before there are threads. `rate`: lease operations a second.
Result<WireResult> RunOverGrpc(const FleetOptions& options, double rate, double seconds);

}  // namespace millrace::bench
