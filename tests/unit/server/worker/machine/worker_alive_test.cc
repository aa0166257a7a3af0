// Tests of what a worker says of itself on the streams of its consumers.
#include "tests/unit/server/worker/machine/machine_fixture.h"
#include "tests/unit/server/worker/machine/queue_fixture.h"

namespace millrace {
namespace {

using test::kMs;
using test::kStream;
using test::kTwin;
using test::Machine;
using test::Named;

std::vector<std::uint64_t> NamedBy(const google::protobuf::RepeatedPtrField<v1::Run>& runs) {
  return Named({runs.begin(), runs.end()});
}

TEST_CASE("the first message of a stream is Alive, whatever the list asks for", "[worker][alive]") {
  Machine m;
  m.state.Tick(m.now);
  m.Act();
  CHECK(m.Messages().empty());
  bool refused = false;
  SECTION("nothing") { m.Wants(0); }
  SECTION("a step") { m.Wants(1); }
  SECTION("a step of a plan that is not ready") {
    v1::WantList list = m.List(1);
    list.set_fingerprint("other");
    m.state.OnWants(kStream, list, m.now);
    m.Act();
    refused = true;
  }
  const auto messages = m.Messages();
  REQUIRE(messages.size() == (refused ? 2 : 1));
  CHECK(messages[0].has_alive());
  CHECK(messages[0].alive().slots() == 2);
  CHECK(messages[0].alive().threads_milli() == 1000);
  CHECK(messages[0].alive().split() == 1);
  CHECK(messages[0].alive().batch_ms() == 0);
  if (refused) {
    CHECK(messages[1].refused().code() == static_cast<std::uint32_t>(StatusCode::kUnavailable));
    CHECK_FALSE(messages[1].refused().has_at());
  }
}

TEST_CASE("a worker says once a second that it lives, and how old its want list is",
          "[worker][alive]") {
  Machine m;
  m.Wants(0);
  CHECK(!m.AliveAfter(900 * kMs));
  CHECK(m.AliveAfter(300 * kMs)->alive().wants_age_ms() == 1200);
  m.Wants(0);
  CHECK(m.AliveAfter(1000 * kMs)->alive().wants_age_ms() == 1000);
}

TEST_CASE("a worker that has heard nothing for 3 s says so at once", "[worker][alive]") {
  Machine m;
  m.Wants();
  CHECK(m.AliveAfter(1000 * kMs));
  CHECK(m.AliveAfter(1000 * kMs));
  CHECK(!m.AliveAfter(200 * kMs));
  CHECK(m.AliveAfter(900 * kMs)->alive().wants_age_ms() == 3100);
  CHECK(!m.AliveAfter(900 * kMs));
  CHECK(m.AliveAfter(200 * kMs)->alive().wants_age_ms() == 4200);
}

TEST_CASE("a worker that stood still has missed nothing that it can tell", "[worker][alive]") {
  Machine m;
  m.Wants();
  m.AliveAfter(0 * kMs);
  CHECK(m.AliveAfter(60'000 * kMs)->alive().wants_age_ms() == 0);
  CHECK(m.AliveAfter(1000 * kMs)->alive().wants_age_ms() == 1000);
}

TEST_CASE("a worker says what has changed, at most every 50 ms", "[worker][alive]") {
  Machine m;
  m.Wants(4);
  m.Messages();
  const auto task = m.state.NextBuild(m.now);
  REQUIRE(task);
  CHECK(!m.AliveAfter(20 * kMs));
  const auto building = m.AliveAfter(40 * kMs);
  REQUIRE(building);
  REQUIRE(building->alive().building_size() == 1);
  CHECK(building->alive().building(0).at().example() == 0);
  CHECK(building->alive().building(0).since_ms() == 60);
  CHECK(building->alive().batches_before() == 3);
  CHECK(!m.AliveAfter(100 * kMs));  // nothing has changed
  // The time of a batch, and that it is built.
  m.state.OnBuilt(*task, std::make_shared<BuiltBatch>(), 600, 0.16, {}, m.now);
  m.Act();
  const auto messages = m.Messages();
  REQUIRE(messages.size() == 1);  // before the batch
  CHECK(messages[0].alive().batch_ms() == Approx(160));
  CHECK(NamedBy(messages[0].alive().built()) == std::vector<std::uint64_t>{0});
  CHECK(messages[0].alive().building_size() == 0);
  CHECK(messages[0].batches_sent() == 0);
  m.Sent();
  const auto later = m.AliveAfter(1000 * kMs);
  REQUIRE(later);
  CHECK(later->batches_sent() == 1);
}

TEST_CASE("of many streams each is told of changes less often", "[worker][alive]") {
  Machine m;
  for (WorkerMachine::StreamId stream = 1000; stream < 1299; ++stream) {
    REQUIRE(m.state.OnStreamOpened(stream, {"one of many"}).ok());
  }
  m.Wants(4);
  m.Messages();
  REQUIRE(m.state.NextBuild(m.now));
  CHECK_FALSE(m.AliveAfter(100 * kMs));
  CHECK_FALSE(m.AliveAfter(190 * kMs));
  const auto building = m.AliveAfter(20 * kMs);  // 1 ms for each of 300 streams
  REQUIRE(building);
  CHECK(building->alive().building_size() == 1);
}

TEST_CASE("no age is negative", "[worker][alive]") {
  Machine m;
  m.Wants(2);
  const auto task = m.state.NextBuild(m.now + 200 * kMs);  // by the clock of a thread
  REQUIRE(task);
  const auto alive = m.AliveAfter(100 * kMs);
  REQUIRE(alive);
  CHECK(alive->alive().building(0).since_ms() == 0);
}

TEST_CASE("a stream that waits for the build of another is told which batch is built",
          "[worker][alive]") {
  Machine m;
  m.Wants();
  const std::optional<BuildQueue::Task> task = m.state.NextBuild(m.now);
  REQUIRE(task);
  m.AddTwin();
  m.Act();
  m.now = m.now + 1000 * kMs;
  m.state.Tick(m.now);
  std::set<WorkerMachine::StreamId> told;
  for (const auto& action : m.state.TakeActions()) {
    const auto* send = std::get_if<WorkerAction::SendControl>(&action);
    if (send == nullptr || send->builds.empty()) continue;
    CHECK(send->builds == std::vector<std::uint64_t>{task->build});
    told.insert(send->stream);
  }
  CHECK(told == std::set<WorkerMachine::StreamId>{kStream, kTwin});
}

TEST_CASE("twins are told of one another's steps", "[worker][alive][twins]") {
  Machine m;
  m.Wants(3);
  m.AddTwin(0);
  m.Act();
  CHECK(NamedBy(m.Messages(kTwin).at(0).alive().twins()) == std::vector<std::uint64_t>{0, 10, 20});
  // One that the first has got is kept for the other.
  m.Build();
  m.Sent();
  const auto alive = m.AliveAfter(1000 * kMs, kTwin);
  REQUIRE(alive);
  CHECK(NamedBy(alive->alive().twins()) == std::vector<std::uint64_t>{0, 10, 20});
}

TEST_CASE("slots and threads are shared by the jobs with steps here, and a stream that joins is told",
          "[worker][alive][shares]") {
  Machine m(10);
  const auto join = [&](WorkerMachine::StreamId id, const char* job, std::uint32_t priority) {
    if (id != kStream) REQUIRE(m.state.OnStreamOpened(id, {"other"}).ok());
    v1::WantList list = m.List(0);
    list.set_job(job);
    list.set_priority(priority);
    list.set_asks(true);
    m.state.OnWants(id, list, m.now);
    m.Act();
    return m.Messages(id).at(0).alive();
  };
  // A consumer that comes is taken to ask soon.
  const v1::Alive alone = join(kStream, "light", 1);
  CHECK(alone.slots() == 20);
  CHECK(alone.threads_milli() == 10'000);
  const v1::Alive heavy = join(2, "heavy", 4);
  CHECK(heavy.slots() == 16);
  CHECK(heavy.threads_milli() == 8000);
  const auto light = m.AliveAfter(50 * kMs);
  REQUIRE(light);
  CHECK(light->alive().slots() == 4);
  CHECK(light->alive().threads_milli() == 2000);
  CHECK(join(3, "heavy", 4).threads_milli() == 4000);
  CHECK(m.AliveAfter(50 * kMs, 2)->alive().slots() == 8);
  m.state.OnStreamClosed(kStream, Cancelled("done"), m.now);
  CHECK(m.AliveAfter(50 * kMs, 2)->alive().slots() == 10);
  // Without a step here it takes no part, and is told what it would get.
  m.AliveAfter(300 * kMs, 2);
  CHECK(m.AliveAfter(1000 * kMs, 2)->alive().slots() == 20);
}

TEST_CASE("slots follow the time of a batch, and the memory that is left", "[worker][shares]") {
  Machine m(2, 2000);
  v1::WantList list = m.List(40);
  list.set_asks(true);
  list.mutable_until()->set_example(0);
  list.mutable_next()->set_example(10);
  list.mutable_runs(0)->set_position(20);
  m.state.OnWants(kStream, list, m.now);
  m.Act();
  m.Messages();
  const auto slots = [&] {
    m.AliveAfter(50 * kMs);
    return m.alive[kStream].slots();
  };
  REQUIRE(m.Build(0.02, 10));
  CHECK(slots() == 20);  // 0.2 s of two threads
  for (int i = 0; i < 15; ++i) m.Build(0.02, 100);
  CHECK(slots() == 5);  // 490 bytes are left
  while (m.Build(0.02, 100)) {
  }
  CHECK(slots() == 1);  // each stream has one
  m.AliveAfter(1000 * kMs);
  CHECK(m.report.slots() == 0);
  CHECK(m.report.idle_threads() == 0);  // memory holds them back
}

TEST_CASE("a report says how many threads have had nothing to build for 50 ms",
          "[worker][shares]") {
  Machine m(3);
  CHECK_FALSE(m.state.NextBuild(m.now));
  const auto idle = [&](Duration d) {
    m.AliveAfter(d);
    m.state.ReportSoon(m.now);
    m.Act();
    return m.report.idle_threads();
  };
  CHECK(idle(40 * kMs) == 0);
  CHECK(idle(20 * kMs) == 3);
  CHECK(m.report.slots() == 6);
  m.Wants(2);
  const auto first = m.state.NextBuild(m.now);
  const auto second = m.state.NextBuild(m.now);
  CHECK_FALSE(m.state.NextBuild(m.now));
  CHECK(idle(10 * kMs) == 1);
  m.state.OnBuilt(*first, std::make_shared<BuiltBatch>(), 1, 0.01, {}, m.now);
  CHECK_FALSE(m.state.NextBuild(m.now));
  CHECK(idle(0 * kMs) == 1);
  CHECK(idle(50 * kMs) == 2);
  m.state.OnBuilt(*second, std::make_shared<BuiltBatch>(), 1, 0.01, {}, m.now);
}

}  // namespace
}  // namespace millrace
