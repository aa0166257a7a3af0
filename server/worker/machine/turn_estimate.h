// When a job's turn comes at a worker that builds for several jobs. Builds are not interrupted, so
// a job with short batches may have to wait for long ones of another job.
#pragma once

#include <cstdint>
#include <vector>

namespace millrace {

/// The facts that decide when a job's next build begins.
struct JobTurn {
  double weight = 1;           // above 0
  double time = 0;             // build seconds that it has had, divided by weight
  double batch_seconds = 0;    // 0: not known yet
  std::uint64_t pending = 0;   // batches that are asked for and not begun
};

/// Seconds until a worker can begin the next build for the first of `jobs`, if all builds take as
/// long as usual. `busy`: the seconds that each build under way still takes. A free thread takes
/// the job that has had the least time. REQUIRES: threads > 0; there is a job.
double SecondsToTurn(std::vector<JobTurn> jobs, std::vector<double> busy, int threads);

}  // namespace millrace
