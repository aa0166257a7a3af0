// The dispatcher behind gRPC, in a process of its own, with a fleet of streams on it.
#pragma once

#include "common/base/result.h"
#include "tests/bench/dispatcher_fleet.h"

namespace millrace::bench {

struct WireResult {
  double all_welcome = 0;  // s, from the first Hello to the last Welcome
  double paced_rate = 0;   // leases/s while reports came at the rate asked for
  double p50 = 0;          // s, from when a report was due until its leases were there
  double p99 = 0;
  double worst = 0;
  double paced_cpu = 0;  // CPU seconds a second, of the dispatcher's process
  double most_rate = 0;  // leases/s while every consumer reported as soon as it had its lease
  double most_cpu = 0;
  double worker_bytes = 0;    // of the dispatcher's process, for a worker and its stream
  double consumer_bytes = 0;  // likewise
};

/// Forks: to be called before there are threads. `rate`: lease operations a second.
Result<WireResult> RunOverGrpc(const FleetOptions& options, double rate, double seconds);

}  // namespace millrace::bench
