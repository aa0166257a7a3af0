#include "client/cli/offline/measure_batches.h"

#include <time.h>

#include <array>
#include <cstdlib>

#include <catch2/catch.hpp>

#include "tests/support/fake_plan.h"

namespace millrace::cli {
namespace {

using test::FakePlan;

/// Takes at least so many seconds of CPU time, of which no other program takes a part.
void Burn(double seconds) {
  const auto now = [] {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
  };
  for (const double end = now() + seconds; now() < end;) {
  }
}

}  // namespace

TEST_CASE("a sample has the CPU time, the size and the stages of its batches", "[size]") {
  FakePlan plan({.examples = 1000, .size = 10});
  plan.stages = {"shuffle", "python: f"};
  plan.on_build = [] { Burn(0.002); };
  const auto sample = MeasureBatches(plan, {.world_size = 4, .seconds = 60});
  REQUIRE(sample.ok());
  CHECK(sample->cpu.count >= 100);
  CHECK(sample->cpu.error <= 0.02);
  CHECK(sample->cpu.mean >= 0.002);
  CHECK(sample->cpu.mean < 0.02);
  CHECK(sample->elapsed_seconds >= 0.002);
  CHECK(sample->seconds >= 0.2);
  CHECK(sample->examples == 10);
  CHECK(sample->bytes.mean > 80);  // ten ids, and a header
  CHECK(sample->bytes.mean == sample->bytes.largest);
  REQUIRE(sample->stages.size() == 2);
  CHECK(sample->stages[0].name == "shuffle");
  CHECK(sample->stages[0].seconds == 1);  // the first build, which counts not, took one more
  CHECK_FALSE(sample->stages[0].python);
  CHECK(sample->stages[1].python);
}

TEST_CASE("a sample ends when its time is over, but has a few batches", "[size]") {
  FakePlan plan({.examples = 1000, .size = 10});
  std::uint64_t builds = 0;
  plan.on_build = [&builds] { ++builds; };
  std::uint64_t told = 0;
  const auto sample = MeasureBatches(
      plan, {.seconds = 0, .progress = [&told](std::uint64_t built) { told = built; }});
  REQUIRE(sample.ok());
  CHECK(sample->cpu.count == 4);
  CHECK(told == 4);
  CHECK(builds == 5);  // the first one does not count
}

TEST_CASE("a sample is spread evenly over the steps and ranks of an epoch", "[size]") {
  const StepArithmetic steps =
      *StepArithmetic::Create({.examples = 1'000'000, .size = 10, .world_size = 4});
  std::array<int, 10> tenths{};
  std::array<int, 4> ranks{};
  for (std::uint64_t number = 0; number < 4000; ++number) {
    const ExampleRange range = *DrawBatch(steps, number);
    CHECK(range == *DrawBatch(steps, number));
    REQUIRE(range.count == 10);
    ++tenths[range.first / 100'000];
    ++ranks[range.first / 10 % 4];
  }
  for (const int count : tenths) CHECK(std::abs(count - 400) < 100);  // five deviations
  for (const int count : ranks) CHECK(std::abs(count - 1000) < 140);
}

TEST_CASE("ranks without examples are not part of a sample", "[size]") {
  // One example for a thousand ranks.
  const StepArithmetic steps =
      *StepArithmetic::Create({.examples = 1, .size = 1, .keep = true, .world_size = 1000});
  for (std::uint64_t number = 0; number < 20; ++number) {
    CHECK(*DrawBatch(steps, number) == ExampleRange{0, 1});
  }
}

TEST_CASE("an epoch without a step is refused", "[size]") {
  FakePlan plan({.examples = 5, .size = 10});
  const auto sample = MeasureBatches(plan, {.world_size = 1, .seconds = 0});
  CHECK(sample.status().code() == StatusCode::kFailedPrecondition);
}

}  // namespace millrace::cli
