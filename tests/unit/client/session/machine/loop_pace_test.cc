#include "client/session/machine/loop_pace.h"

#include <catch2/catch.hpp>

namespace millrace::client {
namespace {

constexpr Duration kMillisecond = std::chrono::milliseconds(1);

/// A loop that takes a batch after each wait, and works on it for the time of a step.
class Loop {
 public:
  void Step(Duration step, Duration wait = {}) {
    now = now + wait;
    pace.OnTaken(now);
    now = now + step;
    pace.OnAsks(now);
  }
  LoopPace pace;
  Time now{std::chrono::seconds(100)};
};

TEST_CASE("a step takes from taking a batch to asking for the next one, and no wait counts",
          "[loop_pace]") {
  Loop loop;
  CHECK(loop.pace.step_seconds() == 0);
  for (int i = 0; i < 10; ++i) loop.Step(20 * kMillisecond, 500 * kMillisecond);
  CHECK(loop.pace.step_seconds() == Approx(0.02));
  // A loop that asks again has asked already.
  loop.pace.OnAsks(loop.now + std::chrono::seconds(9));
  CHECK(loop.pace.step_seconds() == Approx(0.02));
}

TEST_CASE("the last 64 steps count", "[loop_pace]") {
  Loop loop;
  for (int i = 0; i < 100; ++i) loop.Step(20 * kMillisecond);
  for (int i = 0; i < 32; ++i) loop.Step(60 * kMillisecond);
  CHECK(loop.pace.step_seconds() == Approx(0.04));
  for (int i = 0; i < 32; ++i) loop.Step(60 * kMillisecond);
  CHECK(loop.pace.step_seconds() == Approx(0.06));
}

TEST_CASE("a step is needed after the rest of the present one and those before it", "[loop_pace]") {
  Loop loop;
  CHECK(loop.pace.NeededIn(100, loop.now) == 0);
  for (int i = 0; i < 10; ++i) loop.Step(20 * kMillisecond);
  CHECK(loop.pace.NeededIn(0, loop.now) == 0);  // it waits
  CHECK(loop.pace.NeededIn(3, loop.now) == Approx(0.06));
  loop.pace.OnTaken(loop.now);
  loop.now = loop.now + 15 * kMillisecond;
  CHECK(loop.pace.NeededIn(0, loop.now) == Approx(0.005));
  CHECK(loop.pace.NeededIn(3, loop.now) == Approx(0.065));
  loop.now = loop.now + std::chrono::seconds(1);  // this step takes longer than the others
  CHECK(loop.pace.NeededIn(0, loop.now) == 0);
}

TEST_CASE("the first step is at least as long as it has taken until now", "[loop_pace]") {
  Loop loop;
  CHECK(loop.pace.UsuallyNeededIn(10, loop.now) == 0);
  loop.pace.OnAsks(loop.now);
  loop.pace.OnTaken(loop.now);
  CHECK(loop.pace.UsuallyNeededIn(10, loop.now) == 0);
  loop.now = loop.now + std::chrono::seconds(3);
  CHECK_FALSE(loop.pace.known());
  CHECK(loop.pace.UsuallyNeededIn(10, loop.now) == Approx(30));
  CHECK(loop.pace.NeededIn(10, loop.now) == Approx(30));
}

TEST_CASE("a long step, as for a compiler or a validation, makes no other step needed later",
          "[loop_pace]") {
  Loop loop;
  loop.Step(std::chrono::seconds(60));
  loop.Step(20 * kMillisecond);
  CHECK(loop.pace.NeededIn(10, loop.now) == Approx(0.2));
  for (int i = 0; i < 40; ++i)
    loop.Step(i % 20 == 0 ? std::chrono::seconds(30) : 20 * kMillisecond);
  CHECK(loop.pace.NeededIn(10, loop.now) == Approx(0.2));
  CHECK(loop.pace.step_seconds() > 2);  // the mean has it
  for (int i = 0; i < 64; ++i) loop.Step(std::chrono::seconds(1));
  CHECK(loop.pace.NeededIn(10, loop.now) == Approx(10));
}

TEST_CASE("a loop that waits for batches needs the next ones sooner than its steps say",
          "[loop_pace]") {
  Loop loop;
  for (int i = 0; i < 64; ++i) loop.Step(40 * kMillisecond);
  CHECK(loop.pace.NeededIn(10, loop.now) == Approx(0.4));
  loop.Step(40 * kMillisecond, 1 * kMillisecond);  // this is no wait
  CHECK(loop.pace.NeededIn(10, loop.now) == Approx(0.4));
  loop.Step(40 * kMillisecond, 50 * kMillisecond);
  CHECK(loop.pace.NeededIn(10, loop.now) == Approx(0.2));
  for (int i = 0; i < 3; ++i) loop.Step(40 * kMillisecond, 50 * kMillisecond);
  CHECK(loop.pace.NeededIn(10, loop.now) == Approx(0.08));
  CHECK(loop.pace.step_seconds() == Approx(0.04));
  // It does not need steps sooner that lie far ahead.
  CHECK(loop.pace.UsuallyNeededIn(10, loop.now) == Approx(0.4));
  for (int i = 0; i < 64; ++i) loop.Step(40 * kMillisecond);
  CHECK(loop.pace.NeededIn(10, loop.now) == Approx(0.4));
  // A wait for a batch that is built, and on its way, asks for no more builds.
  loop.pace.OnTaken(loop.now);
  loop.now = loop.now + 40 * kMillisecond;
  loop.pace.OnAsks(loop.now, true);
  loop.Step(40 * kMillisecond, 50 * kMillisecond);
  CHECK(loop.pace.NeededIn(10, loop.now) == Approx(0.4));
}

TEST_CASE("time in which the process stood still is not time of a step", "[loop_pace]") {
  Loop loop;
  for (int i = 0; i < 4; ++i) loop.Step(20 * kMillisecond);
  loop.pace.OnTaken(loop.now);
  loop.now = loop.now + std::chrono::seconds(60) + 20 * kMillisecond;
  loop.pace.StoodStill(std::chrono::seconds(60));
  loop.pace.OnAsks(loop.now);
  CHECK(loop.pace.step_seconds() == Approx(0.02));
}

}  // namespace
}  // namespace millrace::client
