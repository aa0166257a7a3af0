// Puts steps together into runs that name them (Run in common.proto).
//
// Not thread-safe.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "common/epoch/position.h"
#include "millrace/v1/common.pb.h"

namespace millrace {

class StepRuns {
 public:
  /// `stride`: from one step to the next within an epoch; 0: unknown, and each step is a run.
  StepRuns(std::uint64_t stride, int max_runs) : stride_(stride), max_runs_(max_runs) {}

  /// Adds a step. Returns false, and does not add it, if that would be one run too many. REQUIRES:
  /// it comes after the added steps.
  bool Add(Position at);
  std::vector<v1::Run> Take() { return std::exchange(runs_, {}); }

 private:
  const std::uint64_t stride_;
  const int max_runs_;
  std::vector<v1::Run> runs_;
  Position expected_;  // the step that goes on with the last run
};

}  // namespace millrace
