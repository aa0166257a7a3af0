#include <catch2/catch.hpp>

#include <limits>

#include "server/dispatcher/machine/lease_table.h"

namespace millrace {
namespace {

using std::chrono::seconds;
constexpr std::uint64_t kNoEnd = std::numeric_limits<std::uint64_t>::max();

StepArithmetic Steps(std::uint64_t examples, bool keep, std::uint64_t size = 4,
                     std::uint32_t world_size = 2) {
  return StepArithmetic::Create({examples, size, 0, keep, world_size}).value();
}

LeaseFacts Held(std::uint64_t n, Position at, std::uint32_t batches) {
  return {{1, n}, {1, 99}, {at, batches}, {}};
}

v1::Lease Claim(std::uint64_t epoch, std::uint64_t position, std::uint64_t stride,
                std::uint32_t batches) {
  v1::Lease lease;
  lease.mutable_shard()->set_epoch(epoch);
  lease.mutable_shard()->set_position(position);
  lease.mutable_shard()->set_stride(stride);
  lease.mutable_shard()->set_batches(batches);
  return lease;
}

TEST_CASE("an uncovered window is one gap an epoch", "[lease]") {
  const StepArithmetic steps = Steps(30, true);  // 3 full steps of 8 and a tail of 6
  LeaseTable leases;
  CHECK(leases.Gaps(steps, {0, 8}, 6, kNoEnd) == std::vector<StepRun>{{{0, 8}, 3}, {{1, 0}, 3}});
}

TEST_CASE("leases leave gaps before, between and behind them", "[lease]") {
  const StepArithmetic steps = Steps(80, false);  // 10 steps
  LeaseTable leases;
  leases.Report({Held(1, {0, 24}, 2), Held(2, {0, 56}, 1)}, {1, 2}, {});
  CHECK(leases.Gaps(steps, {0, 8}, 9, kNoEnd) ==
        std::vector<StepRun>{{{0, 8}, 2}, {{0, 40}, 2}, {{0, 64}, 2}});
}

TEST_CASE("a lease that begins before the window covers its part of it", "[lease]") {
  const StepArithmetic steps = Steps(80, false);
  LeaseTable leases;
  leases.Report({Held(1, {0, 0}, 4), Held(2, {0, 8}, 1)}, {1, 2}, {});
  CHECK(leases.Gaps(steps, {0, 16}, 3, kNoEnd) == std::vector<StepRun>{{{0, 32}, 1}});
}

TEST_CASE("no gap lies in an epoch that is not wanted", "[lease]") {
  const StepArithmetic steps = Steps(16, false);
  CHECK(LeaseTable().Gaps(steps, {1, 8}, 100, 3) == std::vector<StepRun>{{{1, 8}, 1}, {{2, 0}, 2}});
  CHECK(LeaseTable().Gaps(steps, {3, 0}, 100, 3).empty());
}

TEST_CASE("a consumer gives up what it had, has not passed, and holds no more", "[lease]") {
  constexpr std::uint64_t kStride = 8;
  LeaseTable leases;
  leases.Report({Held(1, {0, 0}, 2), Held(2, {0, 16}, 2), Held(3, {0, 32}, 2)}, {1, 3}, {});
  LeaseFacts other = Held(4, {0, 48}, 1);
  other.worker = {1, 98};
  leases.Sent(other);
  LeaseFacts copy = Held(5, {0, 32}, 2);
  copy.copy = true;
  leases.Sent(copy);
  leases.Sent(Held(6, {0, 56}, 1));
  const auto given_up = [&](std::vector<LeaseFacts> held, std::uint64_t last, Position next) {
    return leases.GivenUp(held, {1, last}, next, kStride);
  };
  using Counts = std::map<Number, std::uint32_t>;
  CHECK(given_up({Held(2, {0, 16}, 2), Held(3, {0, 32}, 2)}, 3, {0, 16}).empty());
  CHECK(given_up({Held(2, {0, 24}, 1), Held(3, {0, 32}, 2)}, 3, {0, 24}).empty());
  CHECK(given_up({Held(2, {0, 16}, 2)}, 3, {0, 16}) == Counts{{{1, 99}, 1}});
  CHECK(given_up({Held(2, {0, 16}, 1)}, 3, {0, 16}) == Counts{{{1, 99}, 2}});
  CHECK(given_up({}, 5, {0, 16}) == Counts{{{1, 98}, 1}, {{1, 99}, 2}});
  CHECK(given_up({}, 6, {1, 0}).empty());
}

TEST_CASE("a lease on its way covers until the consumer has seen it", "[lease]") {
  const StepArithmetic steps = Steps(80, false);
  LeaseTable leases;
  leases.Sent({{2, 7}, {1, 99}, {{0, 0}, 4}, Time{seconds(10)}});
  leases.Report({}, {2, 6}, Time{seconds(5)});
  CHECK(leases.Gaps(steps, {0, 0}, 4, kNoEnd).empty());
  leases.Report({}, {2, 7}, Time{seconds(5)});
  CHECK(leases.Gaps(steps, {0, 0}, 4, kNoEnd).size() == 1);
}

TEST_CASE("a lease that was never spoken of is given up for lost", "[lease]") {
  const StepArithmetic steps = Steps(80, false);
  LeaseTable leases;
  leases.Sent({{2, 7}, {1, 99}, {{0, 0}, 4}, Time{seconds(10)}});
  leases.Report({}, {}, Time{seconds(11)});
  CHECK(leases.Gaps(steps, {0, 0}, 4, kNoEnd).size() == 1);
}

TEST_CASE("a shard holds its rank's places and never a cut tail beside full steps", "[lease]") {
  const StepArithmetic steps = Steps(30, true);
  StepRun run{{0, 8}, 3};
  const v1::Shard full = CutShard(steps, 1, 64, run);
  CHECK(full.position() == 8);
  CHECK(full.first_example() == 12);
  CHECK(full.examples() == 4);
  CHECK(full.batches() == 2);
  CHECK(full.stride() == 8);
  const v1::Shard tail = CutShard(steps, 1, 64, run);
  CHECK(tail.position() == 24);
  CHECK(tail.first_example() == 27);
  CHECK(tail.examples() == 3);
  CHECK(tail.batches() == 1);
  CHECK(run.batches == 0);
}

TEST_CASE("held leases with numbers that overflow are refused", "[lease][hostile]") {
  const StepArithmetic steps = Steps(80, false);
  const std::uint64_t huge = std::numeric_limits<std::uint64_t>::max();
  CHECK(CheckHeld(steps, {0, 0}, Claim(0, 16, 8, 8)).ok());
  CHECK_FALSE(CheckHeld(steps, {0, 0}, Claim(0, 16, 8, 9)).ok());
  CHECK_FALSE(CheckHeld(steps, {0, 0}, Claim(0, 16, 8, 0)).ok());
  CHECK_FALSE(CheckHeld(steps, {0, 0}, Claim(0, 16, 8, 0xFFFFFFFF)).ok());
  CHECK_FALSE(CheckHeld(steps, {0, 0}, Claim(0, huge - 7, 8, 2)).ok());
  CHECK_FALSE(CheckHeld(steps, {0, 0}, Claim(0, 16, huge, 1)).ok());
  CHECK_FALSE(CheckHeld(steps, {0, 0}, Claim(0, 12, 8, 1)).ok());
  CHECK_FALSE(CheckHeld(steps, {1, 0}, Claim(0, 16, 8, 1)).ok());
}

TEST_CASE("steps of a resumed epoch lie where the resume put them", "[lease]") {
  const StepArithmetic steps = Steps(80, false);
  CHECK(IsStep(steps, {2, 12}, {2, 20}));
  CHECK_FALSE(IsStep(steps, {2, 12}, {2, 16}));
  CHECK(IsStep(steps, {2, 12}, {3, 16}));
  CHECK_FALSE(IsStep(steps, {2, 12}, {2, 76}));  // 4 examples left, dropped
}

}  // namespace
}  // namespace millrace
