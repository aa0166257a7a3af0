// Tests of streams that want the same batches: two jobs of one fingerprint, or replicas.
#include <catch2/catch.hpp>

#include <deque>
#include <set>

#include <rapidcheck/catch.h>

#include "tests/unit/server/worker/machine/queue_fixture.h"

namespace millrace {
namespace {

using test::BuildAll;
using test::BuildBytes;
using test::Steps;
using test::Wants;

using test::kOnlyRank;
using test::Positions;
using test::Streams;
using test::Twosome;

TEST_CASE("a batch that two streams want is built once and sent to both", "[shared]") {
  Twosome two;
  two.Want(1, 0, {{0, 3}});
  two.Want(2, 0, {{0, 3}});
  CHECK(two.queue.pending() == 3);
  CHECK(BuildAll(two.queue) == Positions{0, 10, 20});
  CHECK(two.queue.TakeReady() == Streams{1, 2});
  CHECK(two.queue.built_bytes() == 300);
  CHECK(two.Send(1) == Positions{0, 10, 20});
  CHECK(two.queue.built_bytes() == 300);
  CHECK(two.Send(2) == Positions{0, 10, 20});
  CHECK(two.queue.built_bytes() == 0);
  CHECK(two.queue.kept_bytes() == 0);
  CHECK(two.shared == 3);
}

TEST_CASE("batches are shared by their examples, whatever their position and epoch's cut",
          "[shared]") {
  Twosome two;
  two.Want(1, 0, {{0, 1}});
  // The second job has two ranks: the same examples lie at another position of its steps.
  v1::WantList list = Wants(0, {{0, 1}}, 1000);
  list.mutable_runs(0)->set_stride(20);
  REQUIRE(two.queue.SetWants(2, list).ok());
  CHECK(BuildAll(two.queue) == Positions{0});
  CHECK(two.Send(2) == Positions{0});
  // Other examples, another epoch or another plan are another batch.
  SECTION("examples") { list.mutable_runs(0)->set_examples(9); }
  SECTION("epoch") { list.mutable_runs(0)->set_epoch(1); }
  SECTION("plan") {
    two.queue.RemoveStream(2);
    two.queue.AddStream(2, "other plan", "b", kOnlyRank);
  }
  REQUIRE(two.queue.SetWants(2, list).ok());
  CHECK(two.queue.Next());
}

TEST_CASE("a stream that comes while a batch is being built waits for that build", "[shared]") {
  Twosome two;
  two.Want(1, 0, {{0, 1}});
  const auto task = two.queue.Next();
  REQUIRE(task);
  two.Want(2, 0, {{0, 1}});
  CHECK_FALSE(two.queue.Next());
  REQUIRE(two.queue.Building(2).size() == 1);
  CHECK(two.queue.Building(2)[0].build == task->build);
  CHECK(two.queue.Owes(2));
  BuildBytes(two.queue, *task);
  CHECK(two.queue.TakeReady() == Streams{1, 2});
  CHECK(two.Send(2) == Positions{0});
}

TEST_CASE("a stream that comes later takes what is built, without a builder", "[shared]") {
  Twosome two;
  two.Want(1, 0, {{0, 2}}, 0);
  CHECK(BuildAll(two.queue).size() == 2);
  two.queue.TakeReady();
  two.Want(2, 0, {{0, 1}});
  CHECK(two.queue.TakeReady() == Streams{2});
  CHECK(two.Send(2) == Positions{0});  // it asks for one
  CHECK(two.queue.built_bytes() == 200);
}

TEST_CASE("a build goes on for the others when the stream that it was begun for goes", "[shared]") {
  Twosome two;
  two.Want(1, 0, {{0, 1}});
  two.Want(2, 0, {{0, 1}});
  const auto task = two.queue.Next();
  REQUIRE(task);
  const std::uint64_t other = 3 - task->stream;
  SECTION("its stream ends") { two.queue.RemoveStream(task->stream); }
  SECTION("it wants the batch no longer") { two.Want(task->stream, 0, {}); }
  BuildBytes(two.queue, *task);
  CHECK(two.Send(other) == Positions{0});
  CHECK(two.shared == 1);
}

TEST_CASE("a batch that one stream has withdrawn is still there for the other", "[shared]") {
  Twosome two;
  two.Want(1, 0, {{0, 2}});
  two.Want(2, 0, {{0, 2}});
  BuildAll(two.queue);
  std::uint64_t kept = 0;
  SECTION("its stream ends") { two.queue.RemoveStream(1); }
  SECTION("it asks for nothing") {
    two.Want(1, 0, {});
    kept = 200;  // it may ask again
  }
  CHECK(two.queue.built_bytes() == 200);
  CHECK(two.Send(2) == Positions{0, 10});
  CHECK(two.queue.built_bytes() == 0);
  CHECK(two.queue.kept_bytes() == kept);
}

TEST_CASE("a batch whose streams are gone when it is built is not held", "[shared]") {
  Twosome two;
  two.Want(1, 0, {{0, 1}});
  const auto task = two.queue.Next();
  two.Want(2, 10, {});
  two.queue.RemoveStream(1);
  BuildBytes(two.queue, *task);
  CHECK(two.queue.built_bytes() + two.queue.kept_bytes() == 0);
  CHECK(two.queue.remembered() == 0);
}

TEST_CASE("a step that cannot be built is refused to each stream that waits for it", "[shared]") {
  Twosome two;
  two.Want(1, 0, {{0, 2}});
  two.Want(2, 0, {{0, 2}});
  const auto task = two.queue.Next();
  REQUIRE(task);
  CHECK(two.queue.GiveUp(*task, Aborted("no")) ==
        std::map<BuildQueue::StreamId, Position>{{1, task->at}, {2, task->at}});
  const auto other = two.queue.Next();  // the step that is left
  REQUIRE(other);
  CHECK(other->at == Position{0, 10});
  CHECK_FALSE(two.queue.Next());
}

TEST_CASE("what was begun before a plan was given up reaches nobody", "[shared]") {
  Twosome two;
  two.Want(1, 0, {{0, 2}});
  const auto before = two.queue.Next();
  REQUIRE(before);
  CHECK(two.queue.GiveUpPlan("plan") == Streams{1});
  // The plan is ready again, and another stream asks for the batch.
  two.Want(2, 0, {{0, 1}});
  const auto after = two.queue.Next();
  REQUIRE(after);
  BuildBytes(two.queue, *before);
  CHECK_FALSE(two.queue.TakeToSend(2));
  CHECK(two.queue.built_bytes() == 0);
  BuildBytes(two.queue, *after);
  CHECK(two.Send(2) == Positions{0});
}

TEST_CASE("what is kept or on its way of a plan that was given up is not sent again", "[shared]") {
  Twosome two;
  two.Want(1, 0, {{0, 2}});
  BuildAll(two.queue);
  two.Send(1);
  CHECK(two.queue.kept_bytes() == 200);
  two.queue.GiveUpPlan("plan");
  CHECK(two.queue.kept_bytes() == 0);
  two.Want(2, 0, {{0, 2}});
  CHECK(BuildAll(two.queue) == Positions{0, 10});
}

TEST_CASE("a batch that is still on its way to another is taken from there", "[shared]") {
  Twosome two(1 << 20, RankPlace{});  // no twins: nothing is kept
  two.Want(1, 0, {{0, 2}});
  BuildAll(two.queue);
  two.Send(1);
  CHECK(two.queue.built_bytes() + two.queue.kept_bytes() == 0);
  SECTION("while it is on its way") {
    two.Want(2, 0, {{0, 2}});
    CHECK_FALSE(two.queue.Next());
    CHECK(two.Send(2) == Positions{0, 10});
    CHECK(two.shared == 2);
  }
  SECTION("not after it has arrived") {
    two.Arrive();
    two.Want(2, 0, {{0, 2}});
    CHECK(BuildAll(two.queue) == Positions{0, 10});
  }
}

TEST_CASE("what is on its way is taken only as memory allows it, or as the next batch",
          "[shared]") {
  Twosome two(100, RankPlace{});
  two.Want(1, 0, {{0, 1}});
  BuildAll(two.queue);
  CHECK(two.Send(1) == Positions{0});
  two.Want(1, 10, {{10, 1}});
  BuildAll(two.queue);
  CHECK(two.Send(1) == Positions{10});
  two.Want(2, 0, {{0, 2}}, 0);
  CHECK(two.queue.built_bytes() == 100);  // the next one
  CHECK_FALSE(two.queue.Next());          // the other one waits for memory, and is not built either
  CHECK(two.Send(2) == Positions{0});
  CHECK_FALSE(two.queue.Next());
  CHECK(two.queue.TakeReady().contains(2));
  two.Want(2, 10, {{10, 1}}, 0);
  CHECK(two.Send(2) == Positions{10});
  CHECK(two.shared == 2);
}

TEST_CASE("two batches on their way do not take each other's place for ever", "[shared]") {
  Twosome two(100, RankPlace{});
  two.Want(1, 10, {{10, 2}});
  while (const auto task = two.queue.Next()) BuildBytes(two.queue, *task, 10);
  CHECK(two.Send(1) == Positions{10, 20});
  two.Want(2, 0, {{10, 1}}, 0);
  CHECK(two.queue.built_bytes() == 10);
  two.queue.AddStream(3, "other plan", "c");
  two.Want(3, 0, {{0, 1}}, 0);
  CHECK(BuildAll(two.queue) == Positions{0});  // memory is full of what cannot be forgotten
  two.Want(2, 0, {{10, 2}}, 0);
  CHECK_FALSE(two.queue.Next());
  CHECK(two.queue.built_bytes() == 110);
}

TEST_CASE("sent batches are kept for a twin that comes to them later", "[shared][kept]") {
  Twosome two;
  two.Want(2, 0, {});
  two.Want(1, 0, {{0, 4}});
  CHECK(BuildAll(two.queue).size() == 4);
  two.Send(1);
  two.Arrive();
  CHECK(two.queue.kept_bytes() == 400);
  two.Want(2, 0, {{0, 2}});
  CHECK_FALSE(two.queue.Next());
  CHECK(two.Send(2) == Positions{0, 10});
  CHECK(two.queue.kept_bytes() == 200);
  // The twin has passed one of the others.
  two.Want(2, 30, {});
  CHECK(two.queue.kept_bytes() == 100);
  two.queue.RemoveStream(2);
  CHECK(two.queue.kept_bytes() == 0);
}

TEST_CASE("nothing is kept for streams that are no twins, or are in front", "[shared][kept]") {
  BuildQueue queue(1 << 20);
  queue.AddStream(1, "plan", "a", {2, 0});
  RankPlace place{2, 0};
  std::string plan = "plan";
  std::uint64_t next = 0;
  SECTION("another rank") { place.rank = 1; }
  SECTION("another world size") { place.world_size = 4; }
  SECTION("another plan") { plan = "other plan"; }
  SECTION("a consumer that does not say") { place = {}; }
  SECTION("in front") { next = 40; }
  queue.AddStream(2, plan, "a", place);
  REQUIRE(queue.SetWants(2, Wants(next, {})).ok());
  REQUIRE(queue.SetWants(1, Wants(0, {{0, 4}}, 1000)).ok());
  BuildAll(queue);
  while (queue.TakeToSend(1)) {
  }
  CHECK(queue.kept_bytes() == 0);
}

TEST_CASE("kept batches give way to built ones, those that are needed last first",
          "[shared][kept]") {
  Twosome two(500);
  two.queue.AddStream(3, "other plan", "c");
  two.Want(2, 0, {});
  two.Want(1, 0, {{0, 5}});
  CHECK(BuildAll(two.queue).size() == 5);
  two.Send(1);
  two.Arrive();
  CHECK(two.queue.kept_bytes() == 500);
  two.Want(3, 0, {{0, 3}});
  CHECK(BuildAll(two.queue).size() == 3);
  CHECK(two.queue.kept_bytes() == 200);
  two.Want(2, 0, {{0, 5}});
  CHECK(two.Send(2) == Positions{0, 10});
  two.queue.SetMemoryBudget(0);
  CHECK(two.queue.kept_bytes() == 0);
}

TEST_CASE("memory that is short takes a shared batch from all, and no consumer's next",
          "[shared]") {
  Twosome two(300);
  two.Want(1, 0, {{0, 3}}, 0);
  two.Want(2, 20, {{20, 1}}, 0);  // the last batch of the first is the next of the second
  CHECK(BuildAll(two.queue).size() == 3);
  two.queue.SetMemoryBudget(0);
  CHECK(two.queue.built_bytes() == 200);
  CHECK(two.Send(1) == Positions{0});
  CHECK(two.Send(2) == Positions{20});
}

TEST_CASE("a shared batch that was forgotten is built again once", "[shared]") {
  Twosome two(300);
  two.Want(1, 0, {{10, 3}}, 0);
  two.Want(2, 0, {{10, 3}}, 0);
  CHECK(BuildAll(two.queue).size() == 3);
  two.queue.SetMemoryBudget(200);
  CHECK(two.queue.built_bytes() == 200);
  CHECK(two.queue.pending() == 1);
  two.queue.SetMemoryBudget(300);
  CHECK(BuildAll(two.queue) == Positions{30});
  CHECK(two.queue.built_bytes() == 300);
}

/// Lets the jobs take turns for `builds` builds. Returns the seconds that were built for each.
std::map<std::string, double> TakeTurns(Twosome& two, int builds, std::uint64_t gap) {
  std::map<std::string, double> seconds;
  std::uint64_t next = 0;
  for (int i = 0; i < builds; ++i) {
    two.Want(1, next + gap, {{next + gap, 1}});
    two.Want(2, next, {{next, 1}});
    two.Want(3, next, {{next, 1}});
    // One build at a time, so that all three wait at each choice.
    const auto task = two.queue.Next();
    REQUIRE(task);
    seconds[task->job] += 1;
    BuildBytes(two.queue, *task);
    for (const std::uint64_t stream : two.queue.TakeReady()) two.Send(stream);
    if (task->job != "c") next += 10;
  }
  return seconds;
}

TEST_CASE("jobs in step pay for their builds in turn, and leave others their share", "[shared]") {
  Twosome two;
  two.queue.AddStream(3, "other plan", "c");
  auto seconds = TakeTurns(two, 300, 0);
  CHECK(seconds["a"] == Approx(100).margin(2));
  CHECK(seconds["b"] == Approx(100).margin(2));
  CHECK(seconds["c"] == Approx(100).margin(2));
}

TEST_CASE("a job is owed nothing later for the batches that it took over", "[shared]") {
  Twosome two;
  two.queue.AddStream(3, "other plan", "c");
  // For long, job b takes over what was built for job a. It always waits for some batch.
  std::deque<BuildQueue::Task> building;
  for (std::uint64_t at = 0; at < 2000; at += 10) {
    two.Want(1, at, {{at, 2}});
    while (auto task = two.queue.Next()) building.push_back(*task);
    two.Want(2, at, {{at, 2}});
    CHECK(building.front().job == "a");
    BuildBytes(two.queue, building.front());
    building.pop_front();
    CHECK(two.Send(2) == Positions{at});
    CHECK(two.Send(1) == Positions{at});
  }
  // Now it wants what nobody else wants. It gets its third, and no more.
  int for_b = 0;
  for (int i = 0; i < 90; ++i) {
    const auto at = static_cast<std::uint64_t>(100'000 + 10 * i);
    two.Want(1, at, {{at, 1}});
    two.Want(2, at + 1'000'000, {{at + 1'000'000, 1}});
    two.Want(3, at, {{at, 1}});
    const auto task = two.queue.Next();
    REQUIRE(task);
    for_b += task->job == "b" ? 1 : 0;
    BuildBytes(two.queue, *task);
    for (const std::uint64_t stream : two.queue.TakeReady()) two.Send(stream);
  }
  CHECK(for_b <= 46);
}

TEST_CASE("a worker with many streams, sent batches and no twin remembers nothing of them",
          "[shared]") {
  Twosome two(1 << 20, RankPlace{});
  for (std::uint64_t at = 0; at < 10'000; at += 10) {
    two.Want(1, at, {{at, 1}});
    BuildAll(two.queue);
    two.Send(1);
    two.Arrive();
  }
  two.Want(1, 10'000, {});
  CHECK(two.queue.remembered() <= 2);
}

TEST_CASE("two streams that come and go as they like have each batch built once while it is there",
          "[shared]") {
  rc::prop("any history", [] {
    constexpr std::uint64_t kBudget = 500;
    BuildQueue queue(kBudget);
    std::map<std::uint64_t, std::uint64_t> next;  // by stream
    std::map<std::uint64_t, BuildQueue::Task> building;
    std::map<std::uint64_t, std::weak_ptr<const BuiltBatch>> built;  // by position
    std::vector<std::shared_ptr<const BuiltBatch>> on_their_way;
    const RankPlace place{*rc::gen::inRange(0u, 2u), 0};  // twins or not
    for (std::uint64_t stream : {1, 2, 3}) queue.AddStream(stream, "plan", "j", place);
    const int steps = *rc::gen::inRange(1, 200);
    for (int step = 0; step < steps; ++step) {
      const auto stream = *rc::gen::inRange<std::uint64_t>(1, 4);
      switch (*rc::gen::inRange(0, 6)) {
        case 0: {
          next[stream] += 10 * *rc::gen::inRange<std::uint64_t>(0, 3);
          std::vector<Steps> asked;
          if (const auto more = *rc::gen::inRange(0u, 9u); more > 0) {
            asked.push_back({next[stream], more});
          }
          RC_ASSERT(queue.SetWants(stream, Wants(next[stream], asked, 1 << 20)).ok());
          break;
        }
        case 1:
        case 2:
          if (const auto task = queue.Next()) {
            RC_ASSERT(building.try_emplace(task->at.example, *task).second);
            RC_ASSERT(built[task->at.example].expired());
          }
          break;
        case 3:
          if (!building.empty()) {
            auto batch = std::make_shared<const BuiltBatch>();
            built[building.begin()->first] = batch;
            queue.Built(building.begin()->second, std::move(batch), *rc::gen::element(10u, 100u),
                        1);
            building.erase(building.begin());
          }
          break;
        case 4:
          if (auto out = queue.TakeToSend(stream)) on_their_way.push_back(std::move(out->batch));
          break;
        case 5:
          if (!on_their_way.empty()) on_their_way.erase(on_their_way.begin());
          break;
      }
      RC_ASSERT(queue.kept_bytes() == 0 || queue.built_bytes() + queue.kept_bytes() <= kBudget);
      // Nothing else is held than what is built, kept or on its way.
      std::uint64_t held = 0;
      for (const auto& [at, batch] : built) held += batch.expired() ? 0 : 10;
      RC_ASSERT(held <= queue.built_bytes() + queue.kept_bytes() + 10 * on_their_way.size());
    }
  });
}

}  // namespace
}  // namespace millrace
