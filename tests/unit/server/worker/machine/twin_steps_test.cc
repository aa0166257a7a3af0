// Tests of steps that were withdrawn, and of what a stream is told of its twins' steps.
#include <catch2/catch.hpp>

#include "tests/unit/server/worker/machine/queue_fixture.h"

namespace millrace {
namespace {

using test::BuildAll;
using test::BuildBytes;
using test::kOnlyRank;
using test::Named;
using test::Positions;
using test::Twosome;
using test::Wants;

TEST_CASE("a step that is withdrawn while it is built is kept, and handed out without a build",
          "[shared][withdrawn]") {
  Twosome two;
  two.Want(1, 0, {{0, 4}});
  const auto built = two.queue.Next();
  BuildBytes(two.queue, *built);
  const auto building = two.queue.Next();
  two.Want(1, 0, {});
  CHECK(two.queue.pending() == 0);
  CHECK(two.queue.kept_bytes() == 100);
  BuildBytes(two.queue, *building);
  CHECK(two.queue.built_bytes() == 0);
  CHECK(two.queue.kept_bytes() == 200);
  CHECK(Named(two.queue.TwinRuns(1)) == Positions{0, 10});
  SECTION("to the stream itself") {
    two.Want(1, 0, {{0, 2}});
    CHECK_FALSE(two.queue.Next());
    CHECK(two.Send(1) == Positions{0, 10});
    CHECK(two.shared == 0);
  }
  SECTION("to a twin") {
    two.Want(2, 0, {{0, 2}});
    CHECK_FALSE(two.queue.Next());
    CHECK(two.Send(2) == Positions{0, 10});
    CHECK(two.shared == 2);
  }
  SECTION("to nobody, once all have passed it") {
    two.Want(1, 10, {});
    CHECK(two.queue.kept_bytes() == 200);
    two.Want(2, 20, {});
    CHECK(two.queue.kept_bytes() == 100);
    two.Want(1, 20, {});
    CHECK(two.queue.kept_bytes() == 0);
  }
}

TEST_CASE("withdrawn batches are the first that short memory takes", "[shared][withdrawn]") {
  BuildQueue queue(300);
  queue.AddStream(1, "plan", "a", kOnlyRank);
  REQUIRE(queue.SetWants(1, Wants(0, {{10, 3}})).ok());
  CHECK(BuildAll(queue).size() == 3);
  REQUIRE(queue.SetWants(1, Wants(0, {{10, 1}})).ok());
  CHECK(queue.built_bytes() == 100);
  CHECK(queue.kept_bytes() == 200);
  REQUIRE(queue.SetWants(1, Wants(0, {{10, 1}, {100, 1}})).ok());
  CHECK(BuildAll(queue) == Positions{100});
  CHECK(queue.built_bytes() == 200);
  CHECK(queue.kept_bytes() == 100);
}

TEST_CASE("twins are told what others asked for and what is kept, and not what they were sent",
          "[shared][twins]") {
  Twosome two;
  two.Want(2, 0, {});
  const std::uint64_t before = two.queue.Changes(2);
  two.Want(1, 0, {{0, 6}});
  CHECK(two.queue.Changes(2) > before);
  CHECK(Named(two.queue.TwinRuns(2)) == Positions{0, 10, 20, 30, 40, 50});
  CHECK(two.queue.TwinRuns(1).empty());
  BuildAll(two.queue);
  v1::WantList list = Wants(0, {{0, 6}}, 1 << 20);
  list.mutable_until()->set_example(30);
  REQUIRE(two.queue.SetWants(1, list).ok());
  CHECK(two.Send(1) == Positions{0, 10, 20});
  CHECK(Named(two.queue.TwinRuns(2)) == Positions{0, 10, 20, 30, 40, 50});
  two.Want(2, 10, {{10, 1}, {100, 1}});
  CHECK(two.Send(2) == Positions{10});
  CHECK(Named(two.queue.TwinRuns(2)) == Positions{20, 30, 40, 50});
  // What the stream itself asks for is no news to it.
  CHECK(Named(two.queue.TwinRuns(1)) == Positions{100});
}

TEST_CASE("twins are told the nearest steps where there are too many runs", "[shared][twins]") {
  Twosome two;
  two.Want(2, 0, {});
  v1::WantList list;
  for (std::uint64_t i = 0; i < 200; ++i) {
    *list.add_runs() = Wants(0, {{20 * i, 1}}).runs(0);
  }
  REQUIRE(two.queue.SetWants(1, list).ok());
  two.queue.AddStream(3, "plan", "c", kOnlyRank);
  for (std::uint64_t i = 0; i < 200; ++i) {
    *list.mutable_runs(static_cast<int>(i)) = Wants(0, {{20 * (200 + i), 1}}).runs(0);
  }
  REQUIRE(two.queue.SetWants(3, list).ok());
  const auto runs = two.queue.TwinRuns(2);
  REQUIRE(runs.size() == BuildQueue::kMaxRuns);
  CHECK(runs.front().position() == 0);
  CHECK(runs.back().position() == 20 * 255);
}

}  // namespace
}  // namespace millrace
