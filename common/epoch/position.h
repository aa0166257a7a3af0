// All step arithmetic: which examples of an epoch's order a rank's batch at a position holds, what
// comes next, and where a given example comes. Plan, dispatcher, worker and consumer use this class
// and nothing else. docs/protocol.md, "Places", is its specification.
//
// Immutable; thread-safe.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>

#include "common/base/result.h"

namespace millrace {

/// A place between two steps: the same on every rank after the same step. The end of an epoch is
/// always (e + 1, 0).
struct Position {
  std::uint64_t epoch = 0;
  std::uint64_t example = 0;  // examples of the epoch's order that come before the next step
  friend constexpr auto operator<=>(const Position&, const Position&) = default;
  std::string ToString() const;  // "epoch 3, example 512"
};

/// Places [first, first + count) of an epoch's order.
struct ExampleRange {
  std::uint64_t first = 0;
  std::uint32_t count = 0;
  friend constexpr auto operator<=>(const ExampleRange&, const ExampleRange&) = default;
};

struct StepOptions {
  std::uint64_t examples = 0;     // in an epoch, n
  std::uint64_t size = 0;         // per rank and step; 0 where global_size is given
  std::uint64_t global_size = 0;  // per step over all ranks; 0 where size is given
  bool keep = false;              // remainder: keep | drop
  std::uint32_t world_size = 1;
  friend bool operator==(const StepOptions&, const StepOptions&) = default;
};

/// Where one example of an epoch comes.
struct Location {
  Position position;  // of its step
  std::uint64_t step = 0;
  std::uint32_t rank = 0;
  std::uint32_t row = 0;  // planned row: dropped examples before it count
  friend bool operator==(const Location&, const Location&) = default;
};

/// Steps of a shard where a window is shared between so many workers: half of a worker's part, 1 to
/// 64. REQUIRES: workers > 0.
std::uint32_t ShardStepsOf(std::uint64_t window, std::uint64_t workers);

class StepArithmetic {
 public:
  static constexpr std::uint64_t kMaxExamples = std::uint64_t{1} << 62;  // in an epoch
  static constexpr std::uint64_t kMaxEpoch = std::uint64_t{1} << 62;     // to start at

  /// InvalidArgument where neither or both sizes are given, where one is out of range (a rank's
  /// batch has at most 2^31 - 1 examples), or where the world size is 0 or does not divide
  /// global_size (with both numbers).
  static Result<StepArithmetic> Create(const StepOptions& options);

  const StepOptions& options() const { return options_; }

  /// Examples a full step takes over all ranks: W * B, or G.
  std::uint64_t stride() const { return stride_; }
  /// Examples of one rank's full batch.
  std::uint64_t batch_size() const { return stride_ / options_.world_size; }

  /// The position a session begins at; a step always lies there. OutOfRange for example >= n > 0
  /// and beyond kMaxEpoch; FailedPrecondition for an empty epoch, and for `drop` where no epoch has
  /// a step (with the numbers); (e + 1, 0) where `drop` leaves nothing of a resumed epoch.
  Result<Position> Start(Position wanted) const;

  /// What follows the step at `at`. REQUIRES: a step lies at `at`.
  Position Next(Position at) const;

  /// The examples of `rank` in the step at `at`; empty is legal. REQUIRES: a step lies at `at`,
  /// rank < world size.
  ExampleRange RankExamples(Position at, std::uint32_t rank) const;

  /// Whether the step at `at` is cut short by `keep`.
  bool IsTail(Position at) const;

  /// Counted within the epoch: floor(example / stride).
  std::uint64_t Step(Position at) const { return at.example / stride_; }
  /// step * W + rank: for logs.
  std::uint64_t Ordinal(Position at, std::uint32_t rank) const {
    return Step(at) * options_.world_size + rank;
  }

  /// Steps from `from` to the end of its epoch (from 0: steps of a whole epoch).
  std::uint64_t StepsFrom(std::uint64_t example) const;
  /// Steps of a shard that begins at `at`: at most `most`, none of the next epoch, and a tail step
  /// only by itself. REQUIRES: a step lies at `at`, most > 0.
  std::uint32_t ShardSteps(Position at, std::uint32_t most) const;
  /// Examples that `drop` leaves out of an epoch whose steps begin at `example`; 0 with `keep`.
  std::uint64_t LeftOut(std::uint64_t example = 0) const;

  /// Where the example at `place` of an epoch's order comes, for steps that begin at `from`. Empty
  /// where it lies before `from` or is left out.
  std::optional<Location> Locate(std::uint64_t place, Position from) const;

 private:
  StepArithmetic(const StepOptions& options, std::uint64_t stride)
      : options_(options), stride_(stride) {}

  StepOptions options_;
  std::uint64_t stride_;
};

}  // namespace millrace
