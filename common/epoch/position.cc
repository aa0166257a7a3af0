#include "common/epoch/position.h"

#include <fmt/core.h>

#include <algorithm>
#include <cassert>
#include <limits>

#include "common/base/mutant.h"

namespace millrace {
namespace {

constexpr std::uint64_t kMaxBatch = (std::uint64_t{1} << 31) - 1;

/// floor(index * whole / count) without an overflow. REQUIRES: index <= count < 2^32.
std::uint64_t Share(std::uint64_t whole, std::uint64_t index, std::uint64_t count) {
  return whole / count * index + whole % count * index / count;
}

}  // namespace

std::string Position::ToString() const {
  return fmt::format("epoch {}, example {}", epoch, example);
}

Result<StepArithmetic> StepArithmetic::Create(const StepOptions& options) {
  const auto& [examples, size, global_size, keep, world_size, unit_rows] = options;
  if (world_size == 0) return InvalidArgument("world size is 0: expected at least 1");
  if (examples > kMaxExamples) {
    return InvalidArgument(fmt::format("an epoch of {} examples is too long: expected at most {}",
                                       examples, kMaxExamples));
  }
  if ((size == 0) == (global_size == 0)) {
    return InvalidArgument(fmt::format(
        "batch size is {} and global size is {}: expected exactly one of them, at least 1", size,
        global_size));
  }
  if (size > kMaxBatch) {
    return InvalidArgument(
        fmt::format("batch size {} is out of range: expected 1 to {}", size, kMaxBatch));
  }
  if (unit_rows > 0 && size != 1) {
    return InvalidArgument(
        fmt::format("units are batches of up to {} examples, and batch size is {}: expected 1",
                    unit_rows, size));
  }
  if (unit_rows > kMaxBatch) {
    return InvalidArgument(
        fmt::format("a batch of up to {} examples is out of range: expected at "
                    "most {}",
                    unit_rows, kMaxBatch));
  }
  if (global_size % world_size != 0) {
    return InvalidArgument(
        fmt::format("global batch size {} cannot be shared evenly by {} ranks: choose a world size "
                    "that divides it",
                    global_size, world_size));
  }
  if (global_size / world_size > kMaxBatch) {
    return InvalidArgument(fmt::format(
        "global batch size {} gives {} examples to each of {} ranks: expected at most {}",
        global_size, global_size / world_size, world_size, kMaxBatch));
  }
  return StepArithmetic(options, size != 0 ? size * world_size : global_size);
}

Result<Position> StepArithmetic::Start(Position wanted) const {
  const std::uint64_t n = options_.examples;
  if (n == 0) {
    return FailedPrecondition("the pipeline selects no example: an epoch would be empty");
  }
  if (wanted.example >= n) {
    return OutOfRange(fmt::format("cannot start at {}: an epoch has {} examples, expected 0 to {}",
                                  wanted.ToString(), n, n - 1));
  }
  if (wanted.epoch > kMaxEpoch) {
    return OutOfRange(fmt::format("cannot start at {}: expected an epoch of at most {}",
                                  wanted.ToString(), kMaxEpoch));
  }
  if (StepsFrom(0) == 0) {
    return FailedPrecondition(fmt::format(
        "an epoch of {} examples has no step of {} ({} ranks with {} each), and `remainder: drop` "
        "leaves out what does not fill one: use smaller batches, fewer ranks, or `remainder: keep`",
        n, stride_, options_.world_size, batch_size()));
  }
  if (StepsFrom(wanted.example) == 0) return Position{wanted.epoch + 1, 0};
  return wanted;
}

Result<Position> StepArithmetic::StepAt(std::uint64_t epoch, std::uint64_t step) const {
  if (epoch > kMaxEpoch) {
    return OutOfRange(fmt::format("epoch {}: expected an epoch of at most {}", epoch, kMaxEpoch));
  }
  const std::uint64_t steps = StepsFrom(0);
  if (steps == 0) return OutOfRange(fmt::format("step {}: an epoch has no step", step));
  if (step >= steps) {
    return OutOfRange(fmt::format("step {}: an epoch has the steps 0 to {}", step, steps - 1));
  }
  return Position{epoch, step * stride_};
}

Position StepArithmetic::Next(Position at) const {
  assert(StepsFrom(at.example) > 0);
  if (StepsFrom(at.example) <= 1) return {at.epoch + 1, 0};
  return {at.epoch, at.example + stride_};
}

ExampleRange StepArithmetic::RankExamples(Position at, std::uint32_t rank) const {
  assert(StepsFrom(at.example) > 0 && rank < options_.world_size);
  if (!IsTail(at)) {
    return {at.example + batch_size() * rank, static_cast<std::uint32_t>(batch_size())};
  }
  const std::uint64_t left = options_.examples - at.example;
  if (IsMutant(Mutant::kTailCutWrong)) {
    const std::uint64_t each = left / options_.world_size;
    return {at.example + each * rank, static_cast<std::uint32_t>(each)};
  }
  const std::uint64_t first = Share(left, rank, options_.world_size);
  const std::uint64_t end = Share(left, std::uint64_t{rank} + 1, options_.world_size);
  return {at.example + first, static_cast<std::uint32_t>(end - first)};
}

bool StepArithmetic::IsTail(Position at) const {
  return options_.keep && at.example < options_.examples &&
         options_.examples - at.example < stride_;
}

std::uint64_t StepArithmetic::StepsFrom(std::uint64_t example) const {
  const std::uint64_t left = options_.examples - std::min(example, options_.examples);
  return left / stride_ + (options_.keep && left % stride_ != 0 ? 1 : 0);
}

std::uint32_t StepArithmetic::RunSteps(Position at, std::uint32_t most) const {
  assert(StepsFrom(at.example) > 0 && most > 0);
  const std::uint64_t steps = std::min<std::uint64_t>(most, StepsFrom(at.example));
  const Position last{at.epoch, at.example + (steps - 1) * stride_};
  return static_cast<std::uint32_t>(steps > 1 && IsTail(last) ? steps - 1 : steps);
}

std::uint64_t StepArithmetic::LeftOut(std::uint64_t example) const {
  if (options_.keep) return 0;
  return (options_.examples - std::min(example, options_.examples)) % stride_;
}

std::optional<Location> StepArithmetic::Locate(std::uint64_t place, Position from) const {
  if (place < from.example || place >= options_.examples) return std::nullopt;
  const std::uint64_t steps = (place - from.example) / stride_;
  if (steps >= StepsFrom(from.example)) return std::nullopt;
  const Position at{from.epoch, from.example + steps * stride_};
  const std::uint64_t offset = place - at.example;

  Location location{.position = at, .step = Step(at)};
  if (!IsTail(at)) {
    location.rank = static_cast<std::uint32_t>(offset / batch_size());
    location.row = static_cast<std::uint32_t>(offset % batch_size());
    return location;
  }
  // The last rank whose share begins at or before the example. Shares never get smaller as the rank
  // grows.
  const std::uint64_t left = options_.examples - at.example;
  std::uint64_t low = 0;
  std::uint64_t high = options_.world_size;
  while (high - low > 1) {
    const std::uint64_t middle = low + (high - low) / 2;
    (Share(left, middle, options_.world_size) <= offset ? low : high) = middle;
  }
  location.rank = static_cast<std::uint32_t>(low);
  location.row = static_cast<std::uint32_t>(offset - Share(left, low, options_.world_size));
  return location;
}

}  // namespace millrace
