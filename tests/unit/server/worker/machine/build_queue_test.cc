#include <catch2/catch.hpp>

#include <rapidcheck.h>
#include <rapidcheck/catch.h>

#include <algorithm>
#include <set>

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

TEST_CASE("what a consumer waits for goes before what others want later", "[build_queue]") {
  BuildQueue queue(1 << 20);
  queue.AddStream(1, "plan", "f");
  queue.AddStream(2, "plan", "f");
  REQUIRE(queue.SetWants(1, Wants(0, {{10, 3}})).ok());     // batches after its next one
  REQUIRE(queue.SetWants(2, Wants(500, {{500, 1}})).ok());  // its next batch
  CHECK(queue.Next()->stream == 2);
  CHECK(queue.Next()->at.example == 10);
}

TEST_CASE("jobs take turns by build seconds, whatever their number of streams", "[build_queue]") {
  BuildQueue queue(1 << 30);
  queue.AddStream(1, "plan 1", "slow");
  queue.AddStream(2, "plan 2", "fast");
  queue.AddStream(3, "plan 3", "fast");
  for (std::uint64_t id : {1, 2, 3}) {
    REQUIRE(queue.SetWants(id, Wants(1'000'000, {{1'000'010, 400}})).ok());
  }
  std::map<std::string, double> seconds;
  for (int i = 0; i < 300; ++i) {
    auto task = queue.Next();
    const double cost = task->job == "slow" ? 3 : 1;
    seconds[task->job] += cost;
    BuildBytes(queue, *task, 1, cost);
  }
  CHECK(seconds["slow"] / seconds["fast"] == Approx(1).epsilon(0.05));
}

TEST_CASE("a job that comes late is not owed the time before it came", "[build_queue]") {
  BuildQueue queue(1 << 30);
  queue.AddStream(1, "plan", "old");
  REQUIRE(queue.SetWants(1, Wants(0, {{10, 1000}})).ok());
  for (int i = 0; i < 100; ++i) BuildBytes(queue, *queue.Next(), 1);
  queue.AddStream(2, "plan 2", "new");
  REQUIRE(queue.SetWants(2, Wants(0, {{10, 1000}})).ok());
  int of_new = 0;
  for (int i = 0; i < 20; ++i) {
    auto task = queue.Next();
    of_new += task->job == "new";
    BuildBytes(queue, *task, 1);
  }
  CHECK(of_new <= 11);
}

/// Consumers that take each batch at once and wait for the next one. They share no batch: each has
/// a plan of its own.
struct Waiting {
  BuildQueue queue{1 << 20};
  std::map<std::uint64_t, std::uint64_t> next;  // by stream
  std::map<std::string, double> seconds;        // by job
  std::vector<BuildQueue::Task> building;

  void Add(const std::string& job, double weight, int streams) {
    for (int i = 0; i < streams; ++i) {
      const std::uint64_t id = next.size() + 1;
      queue.AddStream(id, "plan " + std::to_string(id), job);
      Want(id, 0);
    }
    queue.SetWeight(job, weight);
  }
  void Want(std::uint64_t id, std::uint64_t position) {
    next[id] = position;
    REQUIRE(queue.SetWants(id, Wants(position, {{position, 64}}, 1 << 20)).ok());
  }
  /// Builds `batches` batches on `threads` builders. A batch takes the `cost` of its job, in
  /// seconds, or 1 s if the job has none.
  void Run(int batches, std::size_t threads = 1, std::map<std::string, double> cost = {}) {
    for (int i = 0; i < batches; ++i) {
      while (building.size() < threads) building.push_back(*queue.Next());
      const BuildQueue::Task task = building.front();
      building.erase(building.begin());
      const double took = cost.contains(task.job) ? cost[task.job] : 1;
      seconds[task.job] += took;
      BuildBytes(queue, task, 1, took);
      while (queue.TakeToSend(task.stream)) {
      }
      Want(task.stream, next[task.stream] + 10);
    }
  }
};

TEST_CASE("jobs that wait share build seconds by weight, whatever a batch costs", "[build_queue]") {
  const std::size_t threads = GENERATE(1, 2, 5);
  Waiting jobs;
  jobs.Add("light", 1, 2);
  jobs.Add("heavy", 3, 1);
  jobs.Run(2000, threads, {{"light", 0.5}, {"heavy", 2}});
  CHECK(jobs.seconds["heavy"] / jobs.seconds["light"] == Approx(3).epsilon(0.05));
}

TEST_CASE("a consumer's word that is on its way costs its job no share", "[build_queue]") {
  Waiting jobs;
  jobs.Add("light", 1, 1);
  jobs.Add("heavy", 4, 1);
  std::map<std::string, int> built;
  std::optional<BuildQueue::StreamId> took;  // its consumer took a batch; the list is on its way
  for (int i = 0; i < 500; ++i) {
    const auto task = jobs.queue.Next();
    REQUIRE(task);
    if (took) jobs.Want(*took, jobs.next[*took] + 10);
    ++built[task->job];
    BuildBytes(jobs.queue, *task, 1);
    while (jobs.queue.TakeToSend(task->stream)) {
    }
    took = task->stream;
  }
  CHECK(built["heavy"] == Approx(400).margin(8));
}

TEST_CASE("a greedy job with many streams starves nobody", "[build_queue]") {
  Waiting jobs;
  jobs.Add("greedy", 1, 64);
  jobs.Add("small", 1, 1);
  jobs.Run(1000, 2);
  CHECK(jobs.seconds["small"] == Approx(500).epsilon(0.05));
}

TEST_CASE("a job always gets a turn, however small its weight", "[build_queue]") {
  Waiting jobs;
  jobs.Add("heavy", 1000, 8);
  jobs.Add("light", 1, 1);
  jobs.Run(4004);
  CHECK(jobs.seconds["light"] >= 3);
}

TEST_CASE("every job has a batch under way where there are as many builders", "[build_queue]") {
  Waiting jobs;
  for (const char* job : {"a", "b", "c", "d"}) jobs.Add(job, 1, 8);
  jobs.Run(100, 4);
  // All four builders are at work, on one batch of each job.
  while (jobs.building.size() < 4) jobs.building.push_back(*jobs.queue.Next());
  std::set<std::string> under_way;
  for (const BuildQueue::Task& task : jobs.building) under_way.insert(task.job);
  CHECK(under_way.size() == 4);
}

TEST_CASE("a job that nobody reads takes nothing, and no claim grows from that", "[build_queue]") {
  Waiting jobs;
  jobs.Add("read", 1, 1);
  // What the unread job asks for is built once. Then nobody takes its batches.
  jobs.queue.AddStream(100, "plan 100", "unread");
  REQUIRE(jobs.queue.SetWants(100, Wants(0, {{0, 4}}, 0)).ok());
  for (int i = 0; i < 8; ++i) {
    const auto task = jobs.queue.Next();
    BuildBytes(jobs.queue, *task, 1);
    jobs.queue.TakeToSend(task->stream);
    if (task->stream == 1) jobs.Want(1, jobs.next[1] + 10);
  }
  jobs.seconds.clear();
  jobs.Run(200);
  CHECK(jobs.seconds["read"] == 200);
  // The job is read again. From here on it gets its half, and nothing for the time before.
  jobs.next[100] = 0;
  jobs.Want(100, 100);
  jobs.seconds.clear();
  jobs.Run(100);
  CHECK(jobs.seconds["unread"] == Approx(50).margin(3));
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

TEST_CASE("what a loop needs late does not keep another job from what it needs soon",
          "[build_queue]") {
  BuildQueue queue(1 << 20);
  queue.AddStream(1, "plan", "ahead");
  queue.AddStream(2, "plan 2", "behind");
  const auto ask = [&](BuildQueue::StreamId id, std::uint64_t first, std::uint32_t needed_ms) {
    v1::WantList list = Wants(0, {{first, 3}}, 1 << 20);
    list.mutable_runs(0)->set_needed_ms(needed_ms);
    list.set_step_us(1'000'000);
    REQUIRE(queue.SetWants(id, list).ok());
  };
  const auto build = [&] {
    const auto task = queue.Next();
    REQUIRE(task);
    queue.Built(*task, nullptr, 100, 1.0);
    return std::pair(task->stream, task->at.example);
  };
  // How long builds take is not known yet.
  ask(1, 10, 9000);
  build();
  ask(1, 20, 9000);
  ask(2, 10, 1000);
  using Built = std::pair<BuildQueue::StreamId, std::uint64_t>;
  // The first job has had less time; the second one's steps are needed within two builds.
  CHECK(build() == Built{2, 10});
  CHECK(build() == Built{2, 20});
  CHECK(build() == Built{2, 30});
  CHECK(build() == Built{1, 20});
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
