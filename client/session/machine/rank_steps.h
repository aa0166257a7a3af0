// The steps of one session, numbered from 0 at its start through all its epochs. With these
// numbers, windows and leases that cross the end of an epoch are plain intervals of integers.
//
// Immutable; thread-safe.
#pragma once

#include <cstdint>
#include <limits>

#include "client/session/machine/lease.h"
#include "common/base/result.h"
#include "common/epoch/position.h"

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

  /// Whether a step of this session lies at `at`.
  bool Contains(Position at) const;
  /// REQUIRES: Contains(at), or `at` is where an epoch of this session begins.
  std::uint64_t Index(Position at) const;
  Position At(std::uint64_t index) const;
  ExampleRange Examples(std::uint64_t index) const { return steps_.RankExamples(At(index), rank_); }
  /// The part of a shard with the steps [from, end). REQUIRES: from < end, and the shard has all
  /// these steps.
  Shard CutTo(const Shard& shard, std::uint64_t from, std::uint64_t end) const;

  /// The shard that begins at step `first` and has at most `batches` steps. It does not cross the
  /// end of its epoch, and a cut last step is a shard of its own. REQUIRES: `first` is less than
  /// end(), and `batches` is not 0.
  Shard ShardAt(std::uint64_t first, std::uint32_t batches) const;

  /// InvalidArgument, with expected and got, unless the shard is a run of this rank's steps.
  Status Check(const Shard& shard) const;

 private:
  StepArithmetic steps_;
  std::uint32_t rank_;
  Position start_;
  std::uint64_t first_epoch_steps_;  // from the start to the end of its epoch
  std::uint64_t epoch_steps_;
  std::uint64_t end_ = kNoEnd;
};

}  // namespace millrace::client
