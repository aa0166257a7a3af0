// Counts what happened in histories.
//
// Value type.
#pragma once

#include <cstdint>
#include <string>

namespace millrace::sim {

/// They show that the histories are not idle.
struct Counts {
  std::uint64_t events = 0;
  std::uint64_t batches = 0;
  std::uint64_t welcomes = 0;
  std::uint64_t taken_over = 0;
  std::uint64_t refused = 0;  // trainers for which another one held the job for too long
  std::uint64_t relaunches = 0;
  std::uint64_t moved = 0;       // asks, to workers of twins
  std::uint64_t taken_back = 0;  // asks, from workers that failed
  std::uint64_t copies = 0;
  std::uint64_t duplicates = 0;
  std::uint64_t shared = 0;  // batches sent that were built for another stream or lease
  std::uint64_t mismatches = 0;
  std::uint64_t terms = 0;
  std::uint64_t crashes_between = 0;
  std::uint64_t lost_data = 0;      // trainers that ended because files of their dataset were bad
  std::uint64_t damaged_plans = 0;  // compilations that found a dispatcher's own data damaged
  std::uint64_t reasons_told = 0;   // trainers that were told that no worker has their dataset
  std::uint64_t ranges = 0;         // of examples, that workers measured and dispatchers kept
  std::uint64_t columns = 0;        // that became whole
  std::uint64_t code_failures = 0;  // builds that a plugin's code failed
  std::uint64_t failed_jobs = 0;    // that ended for good with an error of a plugin
  double longest_wait = 0;          // for a batch, seconds

  void Add(const Counts& more);
  std::string ToString() const;
};

}  // namespace millrace::sim
