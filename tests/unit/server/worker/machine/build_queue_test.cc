#include <catch2/catch.hpp>

#include <rapidcheck.h>
#include <rapidcheck/catch.h>

#include <algorithm>

#include "tests/unit/server/worker/machine/queue_fixture.h"

namespace millrace {
namespace {

using test::BuildAll;
using test::BuildBytes;
using test::Steps;
using test::Wants;

TEST_CASE("nothing is built that is not asked for", "[build_queue]") {
  BuildQueue queue(1 << 20);
  queue.AddStream(1, "plan", "f");
  REQUIRE(queue.SetWants(1, Wants(0, {})).ok());
  CHECK_FALSE(queue.Next());
  REQUIRE(queue.SetWants(1, Wants(0, {{0, 2}})).ok());
  CHECK(BuildAll(queue) == std::vector<std::uint64_t>{0, 10});
}

TEST_CASE("the next batch is sent without credit, others only within it", "[build_queue]") {
  BuildQueue queue(1 << 20);
  queue.AddStream(1, "plan", "f");
  REQUIRE(queue.SetWants(1, Wants(0, {{0, 3}}, 100)).ok());
  BuildAll(queue);
  auto first = queue.TakeToSend(1);
  REQUIRE(first);
  CHECK(first->task.at.example == 0);
  CHECK(first->credit_used == 0);
  auto second = queue.TakeToSend(1);
  REQUIRE(second);
  CHECK(second->credit_used == 100);
  CHECK(first->batches_sent == 1);
  CHECK(second->batches_sent == 2);
  CHECK(queue.BatchesSent(1) == 2);
  CHECK_FALSE(queue.TakeToSend(1));
  CHECK(queue.BlockedByCredit(1));
  // The consumer moves on. The batch that waited for credit is its next one now.
  REQUIRE(queue.SetWants(1, Wants(20, {{20, 1}}, 100)).ok());
  CHECK(queue.TakeToSend(1)->task.at.example == 20);
}

TEST_CASE("a batch that was sent is not built again while it is on its way", "[build_queue]") {
  BuildQueue queue(1 << 20);
  queue.AddStream(1, "plan", "f");
  REQUIRE(queue.SetWants(1, Wants(0, {{0, 1}})).ok());
  BuildAll(queue);
  REQUIRE(queue.TakeToSend(1));
  REQUIRE(queue.SetWants(1, Wants(0, {{0, 1}})).ok());
  CHECK_FALSE(queue.Next());
  // It did not come, and the consumer asks anew.
  REQUIRE(queue.SetWants(1, Wants(0, {})).ok());
  REQUIRE(queue.SetWants(1, Wants(0, {{0, 1}})).ok());
  CHECK(queue.Next()->at == Position{0, 0});
}

TEST_CASE("batches from `until` on are built and not sent, but for the next one", "[build_queue]") {
  BuildQueue queue(1 << 20);
  queue.AddStream(1, "plan", "f");
  const auto send = [&](std::uint64_t next, std::uint64_t until) {
    v1::WantList list = Wants(next, {{next, 4}}, 1 << 20);
    list.mutable_until()->set_example(until);
    REQUIRE(queue.SetWants(1, list).ok());
    BuildAll(queue);
    std::vector<std::uint64_t> sent;
    while (const auto out = queue.TakeToSend(1)) sent.push_back(out->task.at.example);
    return sent;
  };
  CHECK(send(0, 20) == std::vector<std::uint64_t>{0, 10});
  CHECK(queue.built_bytes() == 200);
  CHECK(queue.BlockedByCredit(1));
  CHECK(send(20, 20) == std::vector<std::uint64_t>{20});
  CHECK(send(20, 100) == std::vector<std::uint64_t>{30, 40, 50});
}

TEST_CASE(
    "a step that is withdrawn before it is begun is dropped, and one of a stream without place "
    "in any case",
    "[build_queue]") {
  BuildQueue queue(1 << 20);
  queue.AddStream(1, "plan", "f");
  REQUIRE(queue.SetWants(1, Wants(0, {{0, 3}})).ok());
  auto first = queue.Next();
  auto second = queue.Next();
  BuildBytes(queue, *second);
  REQUIRE(queue.SetWants(1, Wants(0, {})).ok());
  CHECK(queue.pending() == 0);
  BuildBytes(queue, *first);
  CHECK(queue.built_bytes() + queue.kept_bytes() == 0);
  CHECK_FALSE(queue.TakeToSend(1));
  CHECK_FALSE(queue.Owes(1));
}

TEST_CASE("the answers about a stream name what is built, being built and on its way",
          "[build_queue]") {
  BuildQueue queue(1 << 20);
  queue.AddStream(1, "plan", "f");
  REQUIRE(queue.SetWants(1, Wants(0, {{0, 6}})).ok());
  const std::uint64_t before = queue.Changes(1);
  const auto first = queue.Next();
  const auto second = queue.Next();
  const auto third = queue.Next();
  BuildBytes(queue, *first);
  BuildBytes(queue, *third);
  CHECK(queue.Changes(1) > before);
  REQUIRE(queue.Building(1).size() == 1);
  CHECK(queue.Building(1)[0].at.example == 10);
  CHECK(queue.Building(1)[0].build == second->build);
  REQUIRE(queue.TakeToSend(1));
  CHECK(test::Named(queue.BuiltRuns(1)) == std::vector<std::uint64_t>{0, 20});
  BuildBytes(queue, *second);
  const std::vector<v1::Run> runs = queue.BuiltRuns(1);
  REQUIRE(runs.size() == 1);
  CHECK(runs[0].steps() == 3);
  // It has arrived: the consumer knows.
  const std::uint64_t after = queue.Changes(1);
  REQUIRE(queue.SetWants(1, Wants(10, {{10, 5}})).ok());
  CHECK(test::Named(queue.BuiltRuns(1)) == std::vector<std::uint64_t>{10, 20});
  CHECK(queue.Changes(1) == after);
}

TEST_CASE("memory full of later batches is given up for the next one", "[build_queue]") {
  BuildQueue queue(300);
  queue.AddStream(1, "plan", "f");
  // The worker's memory is full of later batches when it is asked for the next one.
  REQUIRE(queue.SetWants(1, Wants(0, {{100, 8}})).ok());
  CHECK(BuildAll(queue).size() == 3);
  REQUIRE(queue.SetWants(1, Wants(0, {{100, 8}, {0, 1}})).ok());
  auto urgent = queue.Next();
  REQUIRE(urgent);
  CHECK(urgent->at.example == 0);
  BuildBytes(queue, *urgent);
  CHECK(queue.built_bytes() <= 300);  // the last of the later batches was forgotten
  CHECK(queue.TakeToSend(1)->task.at.example == 0);
}

TEST_CASE("what was forgotten is not built again if it is withdrawn", "[build_queue]") {
  BuildQueue queue(150);
  queue.AddStream(1, "plan", "f");
  queue.AddStream(2, "plan 2", "f");
  REQUIRE(queue.SetWants(1, Wants(0, {{10, 2}})).ok());
  CHECK(BuildAll(queue) == std::vector<std::uint64_t>{10, 20});
  REQUIRE(queue.SetWants(1, Wants(0, {{10, 1}})).ok());
  REQUIRE(queue.SetWants(2, Wants(0, {{0, 1}})).ok());
  CHECK(BuildAll(queue) == std::vector<std::uint64_t>{0});  // the batch at 20 is forgotten
}

TEST_CASE("a smaller budget takes what is needed last, and no consumer's next", "[build_queue]") {
  BuildQueue queue(10'000);
  queue.AddStream(1, "plan", "f");
  queue.AddStream(2, "plan 2", "f");
  REQUIRE(queue.SetWants(1, Wants(0, {{0, 8}})).ok());
  REQUIRE(queue.SetWants(2, Wants(0, {{0, 4}})).ok());
  CHECK(BuildAll(queue).size() == 12);
  queue.SetMemoryBudget(600);
  CHECK(queue.built_bytes() == 600);
  CHECK_FALSE(queue.Next());
  queue.SetMemoryBudget(0);
  CHECK(queue.built_bytes() == 200);  // the next batch of each consumer
  CHECK(queue.TakeToSend(1)->task.at.example == 0);
  CHECK(queue.TakeToSend(2)->task.at.example == 0);
  // A consumer's next batch is built even without any budget, one at a time.
  REQUIRE(queue.SetWants(1, Wants(10, {{10, 7}})).ok());
  CHECK(BuildAll(queue) == std::vector<std::uint64_t>{10});
  queue.SetMemoryBudget(10'000);
  CHECK(BuildAll(queue).size() == 6 + 3);
}

TEST_CASE("a stream that takes nothing leaves the others their share of memory", "[build_queue]") {
  BuildQueue queue(1000);
  queue.AddStream(1, "plan", "f");
  queue.AddStream(2, "plan 2", "f");
  REQUIRE(queue.SetWants(1, Wants(0, {{10, 100}})).ok());
  CHECK(BuildAll(queue).size() == 10);
  REQUIRE(queue.SetWants(2, Wants(0, {{10, 100}})).ok());
  CHECK(BuildAll(queue).size() == 5);
  CHECK(queue.built_bytes() <= 1000);
}

TEST_CASE("a step that cannot be built is refused alone, and not tried again while it is asked for",
          "[build_queue]") {
  BuildQueue queue(1 << 20);
  queue.AddStream(1, "plan", "f");
  REQUIRE(queue.SetWants(1, Wants(0, {{0, 3}})).ok());
  using Refused = std::map<BuildQueue::StreamId, Position>;
  CHECK(queue.GiveUp(*queue.Next(), Aborted("no")) == Refused{{1, Position{0, 0}}});
  CHECK(BuildAll(queue) == std::vector<std::uint64_t>{10, 20});
  REQUIRE(queue.SetWants(1, Wants(0, {{0, 3}})).ok());
  CHECK_FALSE(queue.Next());
  REQUIRE(queue.RefusedOf(1).contains(Position{0, 0}));
  CHECK(queue.RefusedOf(1).at(Position{0, 0}).message() == "no");
  // A list that does not name it ends that.
  REQUIRE(queue.SetWants(1, Wants(0, {{10, 2}})).ok());
  CHECK(queue.RefusedOf(1).empty());
  REQUIRE(queue.SetWants(1, Wants(0, {{0, 3}})).ok());
  CHECK(BuildAll(queue) == std::vector<std::uint64_t>{0});
}

TEST_CASE("while a worker drains, only the next batch of a consumer is begun", "[build_queue]") {
  BuildQueue queue(1 << 20);
  queue.AddStream(1, "plan", "f");
  queue.AddStream(2, "plan 2", "f");
  REQUIRE(queue.SetWants(1, Wants(0, {{0, 3}})).ok());
  REQUIRE(queue.SetWants(2, Wants(0, {{10, 3}})).ok());
  const auto task = queue.Next();
  queue.SetDraining(true);
  CHECK_FALSE(queue.Next());
  CHECK(queue.Owes(1));
  CHECK_FALSE(queue.Owes(2));
  BuildBytes(queue, *task);
  CHECK(queue.Owes(1));  // until it is sent
  REQUIRE(queue.TakeToSend(1));
  CHECK_FALSE(queue.Owes(1));
  REQUIRE(queue.SetWants(1, Wants(10, {{10, 2}})).ok());
  CHECK(queue.Owes(1));
  CHECK(BuildAll(queue) == std::vector<std::uint64_t>{10});
  queue.SetDraining(false);
  CHECK(BuildAll(queue).size() == 4);
}

TEST_CASE("want lists that no honest consumer sends are refused and change nothing",
          "[build_queue]") {
  BuildQueue queue(1 << 20);
  queue.AddStream(1, "plan", "f");
  REQUIRE(queue.SetWants(1, Wants(0, {{0, 1}}, 50)).ok());
  v1::WantList bad = Wants(0, {{0, 1}}, 50);
  SECTION("more steps than any list") { bad.mutable_runs(0)->set_steps(~0u); }
  SECTION("more steps than any list, in several runs") {
    bad.mutable_runs(0)->set_steps(BuildQueue::kMaxSteps);
    *bad.add_runs() = Wants(0, {{1 << 20, 1}}).runs(0);
  }
  SECTION("more runs than any list") {
    for (int i = 0; i < BuildQueue::kMaxRuns; ++i) *bad.add_runs() = bad.runs(0);
  }
  SECTION("no step") { bad.mutable_runs(0)->set_steps(0); }
  SECTION("a position that overflows") { bad.mutable_runs(0)->set_position(~std::uint64_t{0}); }
  SECTION("a stride that overflows") { bad.mutable_runs(0)->set_stride(~std::uint64_t{0}); }
  SECTION("credit that decreases") { bad.set_credit_bytes(49); }
  bad.mutable_next()->set_example(1'000'000);
  CHECK(queue.SetWants(1, bad).code() == StatusCode::kInvalidArgument);
  CHECK(queue.Next()->at == Position{0, 0});
}

TEST_CASE("a step that comes with other examples is another batch", "[build_queue]") {
  BuildQueue queue(1 << 20);
  queue.AddStream(1, "plan", "f", {1, 0});
  v1::WantList list = Wants(0, {{0, 1}});
  REQUIRE(queue.SetWants(1, list).ok());
  const auto first = queue.Next();
  list.mutable_runs(0)->set_examples(7);
  REQUIRE(queue.SetWants(1, list).ok());
  BuildBytes(queue, *first);
  CHECK_FALSE(queue.TakeToSend(1));
  const auto second = queue.Next();
  REQUIRE(second);
  CHECK(second->range.count == 7);
  BuildBytes(queue, *second);
  CHECK(queue.TakeToSend(1));
}

TEST_CASE("a batch that was withdrawn and does not fit is not kept for a twin", "[build_queue]") {
  BuildQueue queue(500);
  for (const std::uint64_t twin : {1, 3}) queue.AddStream(twin, "plan", "f", {2, 1});
  REQUIRE(queue.SetWants(1, Wants(0, {{0, 1}}, 10'000)).ok());
  REQUIRE(queue.SetWants(3, Wants(0, {}, 10'000)).ok());
  const auto task = queue.Next();
  REQUIRE(task.has_value());
  REQUIRE(queue.SetWants(1, Wants(0, {}, 10'000)).ok());
  BuildBytes(queue, *task, 600);
  CHECK(queue.built_bytes() == 0);
  CHECK(queue.kept_bytes() == 0);
  CHECK(queue.remembered() == 0);
}

TEST_CASE("bounds hold through any history", "[build_queue]") {
  // Batches that are built and not sent exceed the budget by at most one batch for each builder and
  // one for each stream. With those that are kept they fit, or none is kept. No batch is built
  // unasked.
  rc::prop("any history", [] {
    constexpr std::uint64_t kBudget = 500;
    constexpr std::uint64_t kLargest = 100;
    constexpr int kThreads = 2;
    BuildQueue queue(kBudget);
    std::map<std::uint64_t, v1::WantList> wants;
    std::vector<BuildQueue::Task> building;
    const int steps = *rc::gen::inRange(1, 150);
    for (int step = 0; step < steps; ++step) {
      const auto stream = *rc::gen::inRange<std::uint64_t>(1, 4);
      switch (*rc::gen::inRange(0, 5)) {
        case 0:
          // Streams 1 and 3 are twins.
          if (wants.try_emplace(stream).second) {
            queue.AddStream(stream, "plan", "f", {2, static_cast<std::uint32_t>(stream % 2)});
          }
          break;
        case 1:
          if (wants.contains(stream)) {
            const auto base = 10 * *rc::gen::inRange<std::uint64_t>(0, 20);
            const std::vector<Steps> asked = {{base, *rc::gen::inRange(1u, 9u)},
                                              {base + 100, *rc::gen::inRange(1u, 9u)}};
            const std::uint64_t credit = wants[stream].credit_bytes() + *rc::gen::inRange(0, 200);
            wants[stream] = Wants(base, asked, credit);
            wants[stream].mutable_until()->set_example(base + 10 * *rc::gen::inRange(0, 20));
            RC_ASSERT(queue.SetWants(stream, wants[stream]).ok());
          }
          break;
        case 2:
          if (building.size() < kThreads) {
            if (auto task = queue.Next()) {
              const auto asked = test::Named(
                  {wants[task->stream].runs().begin(), wants[task->stream].runs().end()});
              RC_ASSERT(std::count(asked.begin(), asked.end(), task->at.example) > 0);
              building.push_back(*task);
            }
          }
          break;
        case 3:
          if (!building.empty()) {
            BuildBytes(queue, building.back(), kLargest);
            building.pop_back();
          }
          break;
        case 4:
          if (auto out = queue.TakeToSend(stream)) {
            RC_ASSERT(out->credit_used <= wants[stream].credit_bytes());
            RC_ASSERT(out->task.at.example < wants[stream].until().example() ||
                      out->task.at.example == wants[stream].next().example());
          }
          break;
      }
      // The next batch of each stream may exceed the budget.
      RC_ASSERT(queue.built_bytes() <= kBudget + (kThreads + wants.size()) * kLargest);
      RC_ASSERT(queue.kept_bytes() == 0 || queue.built_bytes() + queue.kept_bytes() <= kBudget);
    }
  });
}

}  // namespace
}  // namespace millrace
