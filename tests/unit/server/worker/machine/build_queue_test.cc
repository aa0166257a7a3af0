#include <catch2/catch.hpp>

#include <rapidcheck.h>
#include <rapidcheck/catch.h>

#include <set>

#include "tests/unit/server/worker/machine/queue_fixture.h"

namespace millrace {
namespace {

using test::BuildAll;
using test::BuildBytes;
using test::Wants;
using test::WantSpec;

TEST_CASE("nothing is built without room", "[build_queue]") {
  BuildQueue queue(1 << 20);
  queue.AddStream(1, "plan", "f");
  REQUIRE(queue.SetWants(1, Wants(0, {{1, 0, 4, 0}})).ok());
  CHECK_FALSE(queue.Next());
  REQUIRE(queue.SetWants(1, Wants(0, {{1, 0, 4, 2}})).ok());
  CHECK(BuildAll(queue) == std::vector<std::uint64_t>{0, 10});
}

TEST_CASE("the next batch is sent without credit, others only within it", "[build_queue]") {
  BuildQueue queue(1 << 20);
  queue.AddStream(1, "plan", "f");
  REQUIRE(queue.SetWants(1, Wants(0, {{1, 0, 3, 3}}, 100)).ok());
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
  REQUIRE(queue.SetWants(1, Wants(20, {{1, 20, 1, 1}}, 100)).ok());
  CHECK(queue.TakeToSend(1)->task.at.example == 20);
}

TEST_CASE("a batch that was sent is not built again while it is on its way", "[build_queue]") {
  BuildQueue queue(1 << 20);
  queue.AddStream(1, "plan", "f");
  REQUIRE(queue.SetWants(1, Wants(0, {{1, 0, 2, 1}})).ok());
  BuildAll(queue);
  REQUIRE(queue.TakeToSend(1));
  REQUIRE(queue.SetWants(1, Wants(0, {{1, 0, 2, 1}})).ok());
  CHECK_FALSE(queue.Next());
  // Under another lease it counts as another batch.
  REQUIRE(queue.SetWants(1, Wants(0, {{2, 0, 2, 1}})).ok());
  CHECK(queue.Next()->lease == Number{1, 2});
}

TEST_CASE("a lease that is no longer wanted is forgotten, built or not", "[build_queue]") {
  BuildQueue queue(1 << 20);
  queue.AddStream(1, "plan", "f");
  REQUIRE(queue.SetWants(1, Wants(0, {{1, 0, 2, 2}})).ok());
  auto first = queue.Next();
  auto second = queue.Next();
  BuildBytes(queue, *second);
  REQUIRE(queue.SetWants(1, Wants(0, {})).ok());
  BuildBytes(queue, *first);
  CHECK(queue.built_bytes() == 0);
  CHECK_FALSE(queue.TakeToSend(1));
  CHECK_FALSE(queue.Owes(1));
}

TEST_CASE("what a consumer waits for goes before what others want later", "[build_queue]") {
  BuildQueue queue(1 << 20);
  queue.AddStream(1, "plan", "f");
  queue.AddStream(2, "plan", "f");
  REQUIRE(queue.SetWants(1, Wants(0, {{1, 10, 3, 3}})).ok());     // batches after its next one
  REQUIRE(queue.SetWants(2, Wants(500, {{2, 500, 1, 1}})).ok());  // its next batch
  CHECK(queue.Next()->stream == 2);
  CHECK(queue.Next()->at.example == 10);
}

TEST_CASE("jobs take turns by build seconds, whatever their number of streams", "[build_queue]") {
  BuildQueue queue(1 << 30);
  queue.AddStream(1, "plan 1", "slow");
  queue.AddStream(2, "plan 2", "fast");
  queue.AddStream(3, "plan 3", "fast");
  for (std::uint64_t id : {1, 2, 3}) {
    REQUIRE(queue.SetWants(id, Wants(1'000'000, {{id, 1'000'010, 400, 400}})).ok());
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
  REQUIRE(queue.SetWants(1, Wants(0, {{1, 10, 1000, 1000}})).ok());
  for (int i = 0; i < 100; ++i) BuildBytes(queue, *queue.Next(), 1);
  queue.AddStream(2, "plan 2", "new");
  REQUIRE(queue.SetWants(2, Wants(0, {{2, 10, 1000, 1000}})).ok());
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
    REQUIRE(queue.SetWants(id, Wants(position, {{id, position, 64, 64}}, 1 << 20)).ok());
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
  // The room of the unread job is filled once. Then nobody takes its batches.
  jobs.queue.AddStream(100, "plan 100", "unread");
  REQUIRE(jobs.queue.SetWants(100, Wants(0, {{1000, 0, 64, 4}}, 0)).ok());
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
  // The worker's memory is full of later batches of lease 1 when it gets the urgent lease 2.
  REQUIRE(queue.SetWants(1, Wants(0, {{1, 100, 8, 8}})).ok());
  CHECK(BuildAll(queue).size() == 3);
  REQUIRE(queue.SetWants(1, Wants(0, {{1, 100, 8, 8}, {2, 0, 1, 1}})).ok());
  auto urgent = queue.Next();
  REQUIRE(urgent);
  CHECK(urgent->at.example == 0);
  BuildBytes(queue, *urgent);
  CHECK(queue.built_bytes() <= 300);  // the last of the later batches was forgotten
  CHECK(queue.TakeToSend(1)->task.at.example == 0);
}

TEST_CASE("what was forgotten is not built again without room", "[build_queue]") {
  BuildQueue queue(150);
  queue.AddStream(1, "plan", "f");
  queue.AddStream(2, "plan 2", "f");
  REQUIRE(queue.SetWants(1, Wants(0, {{1, 10, 2, 2}})).ok());
  CHECK(BuildAll(queue) == std::vector<std::uint64_t>{10, 20});
  REQUIRE(queue.SetWants(1, Wants(0, {{1, 10, 2, 1}})).ok());  // it withdraws room
  REQUIRE(queue.SetWants(2, Wants(0, {{1, 0, 1, 1}})).ok());
  CHECK(BuildAll(queue) == std::vector<std::uint64_t>{0});  // the batch at 20 is forgotten
}

TEST_CASE("a smaller budget takes what is needed last, and no consumer's next", "[build_queue]") {
  BuildQueue queue(10'000);
  queue.AddStream(1, "plan", "f");
  queue.AddStream(2, "plan 2", "f");
  REQUIRE(queue.SetWants(1, Wants(0, {{1, 0, 8, 8}})).ok());
  REQUIRE(queue.SetWants(2, Wants(0, {{2, 0, 4, 4}})).ok());
  CHECK(BuildAll(queue).size() == 12);
  queue.SetMemoryBudget(600);
  CHECK(queue.built_bytes() == 600);
  CHECK_FALSE(queue.Next());
  queue.SetMemoryBudget(0);
  CHECK(queue.built_bytes() == 200);  // the next batch of each consumer
  CHECK(queue.TakeToSend(1)->task.at.example == 0);
  CHECK(queue.TakeToSend(2)->task.at.example == 0);
  // A consumer's next batch is built even without any budget, one at a time.
  REQUIRE(queue.SetWants(1, Wants(10, {{1, 10, 7, 7}})).ok());
  CHECK(BuildAll(queue) == std::vector<std::uint64_t>{10});
  queue.SetMemoryBudget(10'000);
  CHECK(BuildAll(queue).size() == 6 + 3);
}

TEST_CASE("a stream that takes nothing leaves the others their share of memory", "[build_queue]") {
  BuildQueue queue(1000);
  queue.AddStream(1, "plan", "f");
  queue.AddStream(2, "plan 2", "f");
  REQUIRE(queue.SetWants(1, Wants(0, {{1, 10, 100, 100}})).ok());
  CHECK(BuildAll(queue).size() == 10);
  REQUIRE(queue.SetWants(2, Wants(0, {{2, 10, 100, 100}})).ok());
  CHECK(BuildAll(queue).size() == 5);
  CHECK(queue.built_bytes() <= 1000);
}

TEST_CASE("a lease that cannot be built is given up once and not tried again", "[build_queue]") {
  BuildQueue queue(1 << 20);
  queue.AddStream(1, "plan", "f");
  REQUIRE(queue.SetWants(1, Wants(0, {{1, 0, 3, 3}, {2, 30, 1, 1}})).ok());
  auto task = queue.Next();
  queue.GiveUp(*task);
  CHECK(queue.Next()->lease == Number{1, 2});
  REQUIRE(queue.SetWants(1, Wants(0, {{1, 0, 3, 3}, {2, 30, 1, 1}})).ok());
  CHECK_FALSE(queue.Next());
}

TEST_CASE("want lists that no honest consumer sends are refused and change nothing",
          "[build_queue]") {
  BuildQueue queue(1 << 20);
  queue.AddStream(1, "plan", "f");
  REQUIRE(queue.SetWants(1, Wants(0, {{1, 0, 1, 1}}, 50)).ok());
  v1::WantList bad = Wants(0, {{2, 0, 1, 1}}, 50);
  SECTION("more batches than any window") {
    bad.mutable_wants(0)->mutable_shard()->set_batches(~0u);
  }
  SECTION("no batch") { bad.mutable_wants(0)->mutable_shard()->set_batches(0); }
  SECTION("a position that overflows") {
    bad.mutable_wants(0)->mutable_shard()->set_position(~std::uint64_t{0});
  }
  SECTION("a stride that overflows") {
    bad.mutable_wants(0)->mutable_shard()->set_stride(~std::uint64_t{0});
  }
  SECTION("credit that decreases") { bad.set_credit_bytes(49); }
  CHECK(queue.SetWants(1, bad).code() == StatusCode::kInvalidArgument);
  CHECK(queue.Next()->lease == Number{1, 1});
}

TEST_CASE("bounds hold through any history", "[build_queue]") {
  // Batches that are built and not sent exceed the budget by at most one batch for each builder and
  // one for each stream. No batch is built without room.
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
          if (wants.try_emplace(stream).second) queue.AddStream(stream, "plan", "f");
          break;
        case 1:
          if (wants.contains(stream)) {
            std::vector<WantSpec> specs;
            const auto base = 10 * *rc::gen::inRange<std::uint64_t>(0, 20);
            specs.push_back({base + 1, base, *rc::gen::inRange(1u, 9u), *rc::gen::inRange(0u, 9u)});
            specs.push_back(
                {base + 2, base + 100, *rc::gen::inRange(1u, 9u), *rc::gen::inRange(0u, 9u)});
            const std::uint64_t credit = wants[stream].credit_bytes() + *rc::gen::inRange(0, 200);
            wants[stream] = Wants(base, specs, credit);
            RC_ASSERT(queue.SetWants(stream, wants[stream]).ok());
          }
          break;
        case 2:
          if (building.size() < kThreads) {
            if (auto task = queue.Next()) {
              bool room = false;
              for (const v1::Want& want : wants[task->stream].wants()) {
                const std::uint64_t k = (task->at.example - want.shard().position()) / 10;
                room = room || (want.lease().n() == task->lease.n && k < want.room());
              }
              RC_ASSERT(room);
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
          }
          break;
      }
      // The next batch of each stream may exceed the budget.
      RC_ASSERT(queue.built_bytes() <= kBudget + (kThreads + wants.size()) * kLargest);
    }
  });
}

}  // namespace
}  // namespace millrace
