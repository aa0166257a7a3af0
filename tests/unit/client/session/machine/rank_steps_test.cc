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

TEST_CASE("a run ends with its epoch, and before a last step of another size", "[steps]") {
  const RankSteps steps = FiveOfTwo();
  const v1::Run run = steps.RunAt(0, 100);
  CHECK(run.epoch() == 0);
  CHECK(run.position() == 0);
  CHECK(run.stride() == 10);
  CHECK(run.first_example() == 5);
  CHECK(run.examples() == 5);
  CHECK(run.steps() == 2);
  CHECK(steps.RunAt(1, 1).steps() == 1);
  CHECK(steps.RunAt(1, 1).first_example() == 15);
  const v1::Run tail = steps.RunAt(5, 7);
  CHECK(tail.epoch() == 1);
  CHECK(tail.position() == 20);
  CHECK(tail.first_example() == 21);
  CHECK(tail.examples() == 2);
  CHECK(tail.steps() == 1);
}

TEST_CASE("runs break where an epoch begins, and before a cut last step", "[steps]") {
  const RankSteps steps = FiveOfTwo();
  std::vector<bool> breaks;
  for (std::uint64_t step = 0; step < 6; ++step) breaks.push_back(steps.BreaksRuns(step));
  CHECK(breaks == std::vector<bool>{true, false, true, true, false, true});
}

TEST_CASE("the steps of a run from the wire are those of this session within the bounds",
          "[steps]") {
  const RankSteps steps = FiveOfTwo();
  const auto named = [&steps](std::uint64_t epoch, std::uint64_t position, std::uint32_t count,
                              std::uint64_t begin, std::uint64_t end) {
    v1::Run run;
    run.set_epoch(epoch);
    run.set_position(position);
    run.set_steps(count);
    std::vector<std::uint64_t> found;
    steps.ForEach(run, begin, end, [&](std::uint64_t step) { found.push_back(step); });
    return found;
  };
  using Found = std::vector<std::uint64_t>;
  CHECK(named(0, 0, 3, 0, 6) == Found{0, 1, 2});
  CHECK(named(0, 0, 1000, 0, 6) == Found{0, 1, 2});  // no run goes on in the next epoch
  CHECK(named(1, 10, 2, 0, 6) == Found{4, 5});
  CHECK(named(0, 0, 3, 1, 2) == Found{1});
  CHECK(named(0, 5, 3, 0, 6) == Found{});
  CHECK(named(0, 0, 0, 0, 6) == Found{});
  CHECK(named(~std::uint64_t{0}, 0, ~0u, 0, 6) == Found{});
}

}  // namespace
}  // namespace millrace::client
