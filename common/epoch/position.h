// All arithmetic of steps: which units of an epoch's order the batch of a rank at a position holds,
// which position comes next, and where a given unit comes. A unit is an example, or a whole batch
// if the pipeline cuts batches by more than their size. Names here speak of examples. The plan, the
// dispatcher, workers and consumers all use this class and no other arithmetic. Its specification
// is docs/internals/protocol.md, "Places".
//
// Immutable; thread-safe.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>

#include "common/base/result.h"

namespace millrace {

/// A place between two steps. It is the same on every rank after the same step. The end of an epoch
/// is always written as (e + 1, 0).
struct Position {
  std::uint64_t epoch = 0;
  std::uint64_t example = 0;  // examples of the epoch's order that come before the next step
  friend constexpr auto operator<=>(const Position&, const Position&) = default;
  std::string ToString() const;  // "epoch 3, example 512"
};

/// Places [first, first + count) in the order of an epoch.
struct ExampleRange {
  std::uint64_t first = 0;
  std::uint32_t count = 0;
  friend constexpr auto operator<=>(const ExampleRange&, const ExampleRange&) = default;
};

struct StepOptions {
  std::uint64_t examples = 0;     // n, the units in an epoch
  std::uint64_t size = 0;         // units per rank and step; 0 if global_size is given
  std::uint64_t global_size = 0;  // units per step over all ranks; 0 if size is given
  bool keep = false;              // whether the remainder is kept (remainder: keep) or dropped
  std::uint32_t world_size = 1;
  std::uint32_t unit_rows = 0;  // most examples of a unit that is a batch; 0: a unit is an example
  friend bool operator==(const StepOptions&, const StepOptions&) = default;
};

/// Where one example comes in an epoch.
struct Location {
  Position position;  // of the step that has it
  std::uint64_t step = 0;
  std::uint32_t rank = 0;
  std::uint32_t row = 0;  // planned row: dropped examples before it count too
  friend bool operator==(const Location&, const Location&) = default;
};

class StepArithmetic {
 public:
  static constexpr std::uint64_t kMaxExamples = std::uint64_t{1} << 62;  // in one epoch
  static constexpr std::uint64_t kMaxEpoch = std::uint64_t{1} << 62;  // that a session can start at

  /// InvalidArgument if neither or both sizes are given, if units are batches and size is not 1, if
  /// a size is out of range (the batch of a rank has at most 2^31 - 1 examples), if the world size
  /// is 0, or if it does not divide global_size. The last message has both numbers.
  static Result<StepArithmetic> Create(const StepOptions& options);

  const StepOptions& options() const { return options_; }

  /// The examples of a full step over all ranks: world size times size, or global_size.
  std::uint64_t stride() const { return stride_; }
  /// The examples in a full batch of one rank.
  std::uint64_t batch_size() const { return stride_ / options_.world_size; }
  /// The most examples of a batch of one rank.
  std::uint64_t max_batch_rows() const {
    return options_.unit_rows > 0 ? options_.unit_rows : batch_size();
  }

  /// The position at which a session begins; a step is always there. If `drop` leaves no step in
  /// the rest of a resumed epoch, this is (e + 1, 0). OutOfRange if example >= n > 0, or beyond
  /// kMaxEpoch. FailedPrecondition if the epoch is empty, or if `drop` leaves no step in any epoch
  /// (with the numbers).
  Result<Position> Start(Position wanted) const;

  /// The position of step `step` of an epoch, for steps that begin at the epoch's start. OutOfRange
  /// for a step that the epoch does not have, and beyond kMaxEpoch.
  Result<Position> StepAt(std::uint64_t epoch, std::uint64_t step) const;

  /// The position after the step at `at`. REQUIRES: a step is at `at`.
  Position Next(Position at) const;

  /// The examples that `rank` has in the step at `at`; the range may be empty. REQUIRES: a step is
  /// at `at`, and rank < world size.
  ExampleRange RankExamples(Position at, std::uint32_t rank) const;

  /// Whether the step at `at` is the short last one that `keep` allows.
  bool IsTail(Position at) const;

  /// The number of the step within its epoch: floor(example / stride).
  std::uint64_t Step(Position at) const { return at.example / stride_; }
  /// step * world size + rank, for logs.
  std::uint64_t Ordinal(Position at, std::uint32_t rank) const {
    return Step(at) * options_.world_size + rank;
  }

  /// The steps from example `from` to the end of its epoch. With 0, this is the number of steps in
  /// a whole epoch.
  std::uint64_t StepsFrom(std::uint64_t example) const;
  /// How many steps a run that begins at `at` has, at most `most`. A run never goes on into the
  /// next epoch, and a short last step is a run by itself. REQUIRES: a step is at `at`, most > 0.
  std::uint32_t RunSteps(Position at, std::uint32_t most) const;
  /// How many examples `drop` leaves out of an epoch whose steps begin at `example`; 0 with `keep`.
  std::uint64_t LeftOut(std::uint64_t example = 0) const;

  /// Where the example at `place` of an epoch's order comes, if steps begin at `from`. Empty if it
  /// is before `from` or left out.
  std::optional<Location> Locate(std::uint64_t place, Position from) const;

 private:
  StepArithmetic(const StepOptions& options, std::uint64_t stride)
      : options_(options), stride_(stride) {}

  StepOptions options_;
  std::uint64_t stride_;
};

}  // namespace millrace
