// When the threads of a worker build one batch together.
#include <catch2/catch.hpp>

#include "tests/unit/server/worker/machine/machine_fixture.h"

namespace millrace::test {
namespace {

/// A worker whose plan makes rows one by one, and takes a second for a batch of 10.
struct Slicing : Machine {
  explicit Slicing(int threads = 4, std::set<std::uint64_t> pools = {}, bool known = true)
      : Machine(threads) {
    // Compiled again, as if it had failed.
    v1::WorkResponse none;
    none.set_term(5);
    none.mutable_id()->set_n(1);
    state.OnWorkResponse(1, none, now);
    Say({});
    state.OnPlan(plan->facts().fingerprint().ToString(),
                 WorkerMachine::ReadyPlan{plan, plan->facts().static_digest(),
                                          plan->facts().fingerprint().ToString(), "", std::nullopt,
                                          true, std::move(pools)},
                 now);
    Act();
    if (!known) return;
    Wants(1);
    const auto task = state.NextBuild(now);
    REQUIRE(task);
    CHECK(task->by_slices);
    state.OnBuilt(*task, std::make_shared<BuiltBatch>(), 1, 1, {}, now);
    Act();
    Sent();
    WantsFrom(1);
  }
  /// The consumer asks for three steps from this one on, which it needs next.
  void WantsFrom(std::uint64_t step) {
    v1::WantList list = List(3);
    list.mutable_runs(0)->set_position(step * 10);
    list.mutable_runs(0)->set_first_example(step * 10);
    list.mutable_next()->set_example(step * 10);
    state.OnWants(kStream, list, now);
    Act();
  }
  BuildQueue::Task Begin() {
    const auto task = state.NextBuild(now);
    REQUIRE(task);
    CHECK(state.OnRows(*task, 10));
    return *task;
  }
  void End(const SliceTask& slice, bool last = false) {
    CHECK(state.OnSliceEnded(slice, 0.1, true) == last);
  }
  std::uint32_t Idle() {
    now = now + std::chrono::seconds(1);
    state.ReportSoon(now);
    Act();
    return report.idle_threads();
  }
};

TEST_CASE("a thread helps a batch that its consumer waits for before it begins another",
          "[worker][slices]") {
  Slicing m;
  const BuildQueue::Task first = m.Begin();
  const auto help = m.state.NextHelp(true, m.now);
  REQUIRE(help);
  CHECK(help->task.build == first.build);
  CHECK(help->slice == RowSlice{9, 1});
  m.End(*help);
  m.state.OnLeft(m.now);
}

TEST_CASE("a batch that nobody waits for is helped only if none can be begun", "[worker][slices]") {
  Slicing m(16);
  const BuildQueue::Task first = m.Begin();
  const BuildQueue::Task second = m.Begin();
  for (int i = 0; i < 10; ++i) REQUIRE(m.state.NextSlice(first)->task.build == first.build);
  CHECK_FALSE(m.state.NextHelp(true, m.now));  // the third step is not begun
  REQUIRE(m.state.NextBuild(m.now));
  CHECK_FALSE(m.state.NextHelp(true, m.now));
  const auto help = m.state.NextHelp(false, m.now);
  REQUIRE(help);
  CHECK(help->task.build == second.build);
}

TEST_CASE("who builds a batch that nobody waits for helps with the one that is waited for",
          "[worker][slices]") {
  Slicing m(16);
  const BuildQueue::Task first = m.Begin();
  const BuildQueue::Task second = m.Begin();
  CHECK(m.state.NextSlice(second)->task.build == first.build);
  CHECK(m.state.NextSlice(first)->task.build == first.build);
  for (int i = 0; i < 7; ++i) CHECK(m.state.NextSlice(second)->task.build == first.build);
  // One row is left, which is less than 20 ms only if rows are short.
  CHECK(m.state.NextSlice(second)->task.build == first.build);
  CHECK(m.state.NextSlice(second)->task.build == second.build);
  CHECK_FALSE(m.state.NextSlice(first));
}

TEST_CASE("who ends the last slice of a batch joins it, and the time is of all threads",
          "[worker][slices]") {
  Slicing m(16);
  const BuildQueue::Task task = m.Begin();
  std::vector<SliceTask> slices;
  for (int i = 0; i < 5; ++i) slices.push_back(*m.state.NextSlice(task));
  for (int i = 0; i < 5; ++i) slices.push_back(*m.state.NextHelp(false, m.now));
  CHECK_FALSE(m.state.NextSlice(task));
  for (std::size_t i = 0; i < 10; ++i) m.End(slices[i], i == 9);
  m.state.OnLeft(m.now);  // who began it
  m.state.OnBuilt(task, std::make_shared<BuiltBatch>(), 1, 1.2, {}, m.now);
  for (int i = 0; i < 5; ++i) m.state.OnLeft(m.now);
  m.Act();
  CHECK(m.sent.contains(kStream));
  m.Sent();
  const auto said = m.AliveAfter(std::chrono::seconds(1));
  REQUIRE(said);
  CHECK(said->alive().batch_ms() == Approx(1040));  // 0.8 · 1 s + 0.2 · 1.2 s
}

TEST_CASE("a thread that helps counts as used", "[worker][slices][idle]") {
  Slicing m(4);
  const BuildQueue::Task task = m.Begin();
  while (m.state.NextBuild(m.now)) {
  }
  CHECK(m.Idle() == 1);
  const auto help = m.state.NextHelp(false, m.now);
  REQUIRE(help);
  CHECK(m.Idle() == 0);
  m.End(*help);
  m.state.OnLeft(m.now);
  CHECK_FALSE(m.state.NextBuild(m.now));
  CHECK(m.Idle() == 1);
}

TEST_CASE("a worker says how many threads make one batch together", "[worker][slices][alive]") {
  const auto split = [](Slicing& m) {
    m.Begin();
    const auto said = m.AliveAfter(std::chrono::seconds(1));
    REQUIRE(said);
    return said->alive().split();
  };
  Slicing four(4);
  CHECK(split(four) == 4);
  Slicing many(64);
  CHECK(split(many) == 10);  // as many as slices
  Slicing unknown(4, {}, false);
  unknown.Wants(1);
  CHECK(split(unknown) == 1);
  Slicing plugin(4, {7});
  PoolUse pool;
  pool.number = 7;
  pool.places = 2;
  plugin.state.OnPools({pool}, std::nullopt);
  CHECK(split(plugin) == 2);
}

TEST_CASE("short batches, and plans that do not make rows one by one, are not shared",
          "[worker][slices]") {
  Slicing m;
  for (int i = 0; i < 2; ++i) {
    const auto task = m.state.NextBuild(m.now);
    CHECK(task->by_slices);
    m.state.OnBuilt(*task, std::make_shared<BuiltBatch>(), 1, 0.019, {}, m.now);
  }
  CHECK_FALSE(m.state.NextBuild(m.now)->by_slices);
  Machine other;
  other.Wants(1);
  CHECK_FALSE(other.state.NextBuild(other.now)->by_slices);
}

TEST_CASE("a batch of one row is left to one thread", "[worker][slices]") {
  Slicing m;
  const auto task = m.state.NextBuild(m.now);
  CHECK_FALSE(m.state.OnRows(*task, 1));
  m.state.OnBuilt(*task, std::make_shared<BuiltBatch>(), 1, 1, {}, m.now);
  CHECK_FALSE(m.state.NextHelp(false, m.now));
}

TEST_CASE("a job that is owed more begins its own batch before it helps another job",
          "[worker][slices]") {
  Slicing m;
  REQUIRE(m.state.OnStreamOpened(kTwin, {"other"}).ok());
  m.Begin();
  v1::WantList list = m.List(1);
  list.set_job("other");
  list.mutable_runs(0)->set_position(500);
  list.mutable_runs(0)->set_first_example(500);
  list.mutable_next()->set_example(500);
  m.state.OnWants(kTwin, list, m.now);
  // The first job is charged a second in advance.
  CHECK_FALSE(m.state.NextHelp(true, m.now));
  const auto theirs = m.state.NextBuild(m.now);
  REQUIRE(theirs);
  CHECK(theirs->job == "other");
  CHECK(m.state.NextHelp(true, m.now));
}

TEST_CASE("slices of a plan that is gone may end at any time", "[worker][slices]") {
  Slicing m;
  const BuildQueue::Task task = m.Begin();
  const auto own = m.state.NextSlice(task);
  const auto help = m.state.NextHelp(true, m.now);
  REQUIRE((own && help));
  m.state.OnPlan(m.plan->facts().fingerprint().ToString(), DataLoss("b.bin was written to"), m.now);
  m.Act();
  m.End(*help);
  m.state.OnLeft(m.now);
  m.End(*own);
  while (const auto next = m.state.NextSlice(task)) {
    if (m.state.OnSliceEnded(*next, 0.1, false)) break;
  }
  m.state.OnBuildFailed(task, DataLoss("b.bin was written to"), m.now);
  m.state.OnLeft(m.now);
  m.Act();
  CHECK_FALSE(m.state.NextHelp(false, m.now));
}

}  // namespace
}  // namespace millrace::test
