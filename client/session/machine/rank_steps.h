// The steps of one session, numbered from 0 at its start through all its epochs. With these
// numbers, the steps ahead are a plain interval of integers, also across the end of an epoch.
//
// Immutable; thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "common/base/result.h"
#include "common/epoch/position.h"
#include "millrace/v1/common.pb.h"

namespace millrace::client {

class RankSteps {
 public:
  static constexpr std::uint64_t kNoEnd = std::numeric_limits<std::uint64_t>::max();

  /// `start` is a result of StepArithmetic::Start. `end_epoch` is the first epoch that is not read.
  /// REQUIRES: rank < world size.
  RankSteps(const StepArithmetic& steps, std::uint32_t rank, Position start,
            std::uint64_t end_epoch = kNoEnd);

  const StepArithmetic& arithmetic() const { return steps_; }
  std::uint32_t rank() const { return rank_; }

  /// The number of the first step that is not read, or kNoEnd.
  std::uint64_t end() const { return end_; }

  /// Whether a step of this session is at `at`.
  bool Contains(Position at) const;
  /// REQUIRES: Contains(at), or `at` is where an epoch of this session begins.
  std::uint64_t Index(Position at) const;
  Position At(std::uint64_t index) const;
  ExampleRange Examples(std::uint64_t index) const { return steps_.RankExamples(At(index), rank_); }
  /// The run that begins at step `first` and has at most `steps` steps. It does not cross the end
  /// of its epoch, and a cut last step is a run of its own. REQUIRES: `first` is less than end(),
  /// and `steps` is not 0.
  v1::Run RunAt(std::uint64_t first, std::uint32_t steps) const;
  /// Whether every run ends before this step: it begins an epoch, or is a cut last step.
  bool BreaksRuns(std::uint64_t step) const;

  /// Calls `take` with each step of this session that a run from the wire names, from `begin` to
  /// `end` - 1.
  template <class Take>
  void ForEach(const v1::Run& run, std::uint64_t begin, std::uint64_t end, Take take) const;

 private:
  StepArithmetic steps_;
  std::uint32_t rank_;
  Position start_;
  std::uint64_t first_epoch_steps_;  // from the start to the end of its epoch
  std::uint64_t epoch_steps_;
  std::uint64_t end_ = kNoEnd;
};

template <class Take>
void RankSteps::ForEach(const v1::Run& run, std::uint64_t begin, std::uint64_t end,
                        Take take) const {
  const Position at{run.epoch(), run.position()};
  if (run.steps() == 0 || !Contains(at)) return;
  const std::uint64_t first = Index(at);
  const std::uint64_t left = steps_.StepsFrom(at.example);
  const std::uint64_t last = std::min(end, first + std::min<std::uint64_t>(left, run.steps()));
  for (std::uint64_t step = std::max(begin, first); step < last; ++step) take(step);
}

}  // namespace millrace::client
