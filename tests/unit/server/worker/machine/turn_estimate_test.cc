// Tests of when a job's turn comes at a worker.
#include "server/worker/machine/turn_estimate.h"

#include <catch2/catch.hpp>

namespace millrace {
namespace {

JobTurn Waits(double time, double batch_seconds, std::uint64_t pending) {
  return {.time = time, .batch_seconds = batch_seconds, .pending = pending};
}

TEST_CASE("a job's turn comes at once if a thread is free and no other job is due before it",
          "[turn_estimate]") {
  CHECK(SecondsToTurn({Waits(5, 1, 0)}, {}, 1) == 0);
  CHECK(SecondsToTurn({Waits(5, 1, 0), Waits(6, 10, 3)}, {4}, 2) == 0);
  CHECK(SecondsToTurn({Waits(5, 1, 0), Waits(1, 10, 0)}, {}, 1) == 0);  // the other has nothing
}

TEST_CASE("builds under way are not interrupted", "[turn_estimate]") {
  CHECK(SecondsToTurn({Waits(5, 1, 2), Waits(6, 10, 3)}, {4}, 1) == 4);
  CHECK(SecondsToTurn({Waits(5, 1, 2), Waits(6, 10, 3)}, {4, 3, 9}, 3) == 3);
  // Fewer threads may build than do.
  CHECK(SecondsToTurn({Waits(5, 1, 2), Waits(6, 10, 3)}, {4, 3}, 1) == 3);
}

TEST_CASE("the job that has had least goes first, until it has had as much", "[turn_estimate]") {
  CHECK(SecondsToTurn({Waits(5, 1, 2), Waits(1, 3, 9)}, {2}, 1) == 8);  // 2, then 3 and 3
  CHECK(SecondsToTurn({Waits(5, 1, 2), Waits(1, 3, 1)}, {2}, 1) == 5);  // it has only one
  JobTurn heavy = Waits(1, 3, 9);
  heavy.weight = 3;
  CHECK(SecondsToTurn({Waits(3.5, 1, 2), heavy}, {2}, 1) == 11);  // each counts for a third
  CHECK(SecondsToTurn({Waits(5, 1, 2), Waits(1, 3, 9)}, {2, 2.5}, 2) == 5);
}

TEST_CASE("an end is found for jobs without a known time, too", "[turn_estimate]") {
  CHECK(SecondsToTurn({Waits(5, 1, 0), Waits(1, 0, 1'000'000)}, {7}, 1) == 7);
}

}  // namespace
}  // namespace millrace
