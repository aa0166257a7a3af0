#include <rapidcheck.h>
#include <rapidcheck/catch.h>
#include <catch2/catch.hpp>

#include "client/session/machine/rank_steps.h"

namespace millrace::client {
namespace {

TEST_CASE("step numbers and positions are each other's inverse over the end of epochs", "[steps]") {
  rc::prop("At and Index", [] {
    StepOptions options;
    options.examples = *rc::gen::inRange<std::uint64_t>(1, 200);
    options.world_size = *rc::gen::inRange<std::uint32_t>(1, 5);
    options.size = *rc::gen::inRange<std::uint64_t>(1, 20);
    options.keep = *rc::gen::arbitrary<bool>();
    const auto steps = StepArithmetic::Create(options).value();
    const Result<Position> start =
        steps.Start({*rc::gen::inRange<std::uint64_t>(0, 4),
                     *rc::gen::inRange<std::uint64_t>(0, options.examples)});
    RC_PRE(start.ok());
    const RankSteps rank(steps, 0, *start);
    Position at = *start;
    for (std::uint64_t i = 0; i < 60; ++i) {
      RC_ASSERT(rank.At(i) == at);
      RC_ASSERT(rank.Contains(at));
      RC_ASSERT(rank.Index(at) == i);
      RC_ASSERT(
          !rank.Contains({at.epoch, at.example + (steps.stride() > 1 ? 1 : options.examples)}));
      at = steps.Next(at);
    }
  });
}

/// 23 examples for 2 ranks with batches of 5, remainder kept: steps at 0 and 10, and a last step of
/// 3 examples at 20.
RankSteps FiveOfTwo() {
  return RankSteps(StepArithmetic::Create({23, 5, 0, true, 2}).value(), 1, {0, 0}, 2);
}

TEST_CASE("a session of two epochs ends after the steps of both", "[steps]") {
  CHECK(FiveOfTwo().end() == 6);
  const RankSteps over(StepArithmetic::Create({23, 5, 0, true, 2}).value(), 1, {3, 0}, 3);
  CHECK(over.end() == 0);
}

TEST_CASE("a shard that is a run of this rank's steps is accepted", "[steps]") {
  const RankSteps steps = FiveOfTwo();
  CHECK(steps.Check({{1, 0}, 10, 5, 5, 2}).ok());
  CHECK(steps.Check({{1, 20}, 10, 21, 2, 1}).ok());
}

TEST_CASE("a shard of another rank, beyond the epoch or off the steps is refused", "[steps]") {
  const RankSteps steps = FiveOfTwo();
  CHECK(steps.Check({{1, 0}, 10, 0, 5, 2}).code() == StatusCode::kInvalidArgument);
  CHECK_FALSE(steps.Check({{1, 0}, 10, 5, 5, 3}).ok());    // the last step has another size
  CHECK_FALSE(steps.Check({{1, 10}, 10, 15, 5, 9}).ok());  // beyond the end of the epoch
  CHECK_FALSE(steps.Check({{1, 5}, 10, 10, 5, 1}).ok());
  CHECK_FALSE(steps.Check({{1, 0}, 11, 5, 5, 2}).ok());
  CHECK_FALSE(steps.Check({{1, 0}, 10, 5, 5, 0}).ok());
  CHECK_FALSE(steps.Check({{1, 30}, 10, 35, 5, 1}).ok());
}

TEST_CASE("a shard is cut to some of its steps", "[steps]") {
  const Shard cut = FiveOfTwo().CutTo({{1, 0}, 10, 5, 5, 2}, 4, 5);
  CHECK(cut.at == Position{1, 10});
  CHECK(cut.first_example == 15);
  CHECK(cut.batches == 1);
}

}  // namespace
}  // namespace millrace::client
