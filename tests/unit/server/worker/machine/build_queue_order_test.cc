// Whose batch a worker builds next, and what jobs get of its threads.
#include <catch2/catch.hpp>

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/server/worker/machine/queue_fixture.h"

namespace millrace {
namespace {

using test::BuildBytes;
using test::Wants;

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

TEST_CASE("a job that asks now and then is not passed over for as long as new jobs come",
          "[build_queue]") {
  BuildQueue queue(1 << 30);
  const auto ask = [&queue](BuildQueue::StreamId id, std::uint64_t at) {
    REQUIRE(queue.SetWants(id, Wants(at, {{at, 1}})).ok());
  };
  queue.AddStream(1, "plan", "first");
  ask(1, 0);
  BuildBytes(queue, *queue.Next(), 1, 10);
  ask(1, 10);  // its second batch
  // From now on there are always two more jobs that have had nothing.
  BuildQueue::StreamId last = 1;
  const auto add = [&] {
    ++last;
    queue.AddStream(last, "plan of " + std::to_string(last), "job " + std::to_string(last));
    ask(last, 0);
  };
  add();
  add();
  int before = 0;
  for (; before < 20; ++before) {
    const auto task = queue.Next();
    if (task->stream == 1) break;
    BuildBytes(queue, *task, 1, 10);
    add();
  }
  CHECK(before <= 4);  // a third of the time is its
}

TEST_CASE("a job that closes its stream and comes back owes what it has had", "[build_queue]") {
  BuildQueue queue(1 << 30);
  std::map<std::string, int> built;
  queue.AddStream(1, "plan 1", "stays");
  REQUIRE(queue.SetWants(1, Wants(0, {{10, 1000}})).ok());
  for (BuildQueue::StreamId id = 2; id < 42; ++id) {
    queue.AddStream(id, "plan 2", "comes");
    REQUIRE(queue.SetWants(id, Wants(0, {{10, 1}})).ok());
    for (bool served = false; !served;) {
      const auto task = queue.Next();
      ++built[task->job];
      BuildBytes(queue, *task, 1, 10);
      served = task->stream == id;
    }
    queue.RemoveStream(id);
  }
  CHECK(built["stays"] == Approx(40).margin(2));
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

}  // namespace
}  // namespace millrace
