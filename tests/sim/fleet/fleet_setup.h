// Describes a simulated fleet: how many processes there are, and what work and messages cost. All
// costs are virtual time.
//
// Plain data.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "common/base/time.h"

namespace millrace::sim {

/// What one job has of its own.
struct FleetJobSetup {
  std::uint32_t priority = 1;
  double build = 1;  // its builds take so many times as long as those of the fleet
  double step = 1;   // and the steps of its loops
};

struct FleetSetup {
  std::uint32_t workers = 1000;
  std::uint32_t jobs = 8;
  std::uint32_t ranks = 125;  // of a job: its loops take their steps together

  int cpus = 4;                                     // of a worker
  Duration build = std::chrono::milliseconds(640);  // of a batch, on one CPU
  double build_spread = 0.3;                        // by which part builds take more or less
  // Batches differ by nature, whoever builds them: lognormal with this sigma and the mean above.
  double sigma = 0;
  std::vector<FleetJobSetup> of_jobs;  // by job; those behind the last one are as this type has it
  std::uint32_t own_workers = 0;  // of the workers, on the host of the first consumer
  bool twins = false;             // all jobs have one plan, and begin `apart`
  Duration apart{0};
  std::uint64_t window_units = 0;  // of windows over data that no host maps; 0: none
  std::uint64_t worker_memory_bytes = 1u << 30;  // of batches that are built and not sent
  Duration starts_within = std::chrono::milliseconds(500);  // in which workers begin, two times
  Duration step = std::chrono::milliseconds(200);   // of a training loop
  double step_spread = 0.02;                        // by which part steps take more or less
  std::uint64_t batch_bytes = 1 << 20;
  std::uint64_t prefetch_bytes = 256u << 20;          // of a consumer: the option, which is a limit
  double link_bytes_per_second = 1.25e9;              // of every host, in each direction
  Duration latency = std::chrono::microseconds(500);  // of a message

  // Settings that are pinned; unset: the processes tune them.
  std::optional<int> threads;
  std::optional<std::uint64_t> ahead_bytes;

  /// Whether all jobs are new. Otherwise they go on after a pause, and the workers have their plans
  /// when the first consumer comes.
  bool cold = false;

  std::uint64_t seed = 1;

  FleetJobSetup OfJob(std::size_t job) const {
    return job < of_jobs.size() ? of_jobs[job] : FleetJobSetup();
  }
  std::uint32_t consumers() const { return jobs * ranks; }
};

}  // namespace millrace::sim
