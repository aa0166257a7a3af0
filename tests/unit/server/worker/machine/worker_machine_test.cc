// Tests of a worker's state machine. They bring its events one by one.
#include <catch2/catch.hpp>

#include <set>

#include "tests/unit/server/worker/machine/machine_fixture.h"

namespace millrace {
namespace {

using test::kMs;
using test::kStream;
using test::kTwin;
using test::Machine;

TEST_CASE("a plan that compiles to another one is not served, and the report says why",
          "[worker_machine]") {
  Machine m;
  v1::WorkResponse response;
  response.set_term(5);
  response.mutable_id()->set_n(1);
  response.add_plans()->set_fingerprint("theirs");
  m.state.OnWorkResponse(1, response, m.now);
  m.state.OnPlan("theirs", WorkerMachine::ReadyPlan{m.plan, "digest", "ours", "other files"},
                 m.now);
  const auto& plan = m.state.plans().at("theirs");
  CHECK(plan.phase == v1::FAILED);
  CHECK(plan.error == FailedPrecondition("compiles to ours here, expected theirs: other files"));
  CHECK(m.state.FindReady("theirs") == nullptr);
}

TEST_CASE("a plan that the dispatcher asks for is answered, and served to nobody",
          "[worker_machine]") {
  Machine m;
  v1::WorkResponse response;
  response.set_term(5);
  response.mutable_id()->set_n(1);
  response.add_plans()->set_fingerprint(m.plan->facts().fingerprint().ToString());
  v1::PlanSpec& asked = *response.add_plans();
  asked.set_fingerprint("question 5.1");
  asked.set_asked(true);
  m.state.OnWorkResponse(1, response, m.now);
  m.state.TakeActions();
  v1::PlanAnswer answer;
  answer.mutable_outline()->set_fingerprint("what it is here");
  m.state.OnWorkWritten(1, m.now);
  m.state.TakeActions();
  m.state.OnPlan("question 5.1",
                 WorkerMachine::ReadyPlan{m.plan, "digest", "what it is here", "", answer}, m.now);
  CHECK(m.state.FindReady("question 5.1") == nullptr);
  std::vector<v1::PlanAnswer> sent;
  const auto take = [&] {
    for (const auto& action : m.state.TakeActions()) {
      const auto* work = std::get_if<WorkerAction::SendWork>(&action);
      if (work == nullptr) continue;
      sent.assign(work->report.answers().begin(), work->report.answers().end());
    }
  };
  take();
  m.state.OnWorkWritten(1, m.now);
  take();
  REQUIRE(sent.size() == 1);
  CHECK(sent[0].question() == "question 5.1");
  CHECK(sent[0].outline().fingerprint() == "what it is here");

  // The plan itself is not compiled again.
  response.clear_plans();
  response.add_plans()->set_fingerprint("what it is here");
  m.state.OnWorkResponse(1, response, m.now);
  for (const auto& action : m.state.TakeActions()) {
    CHECK_FALSE(std::holds_alternative<WorkerAction::CompilePlan>(action));
  }
  REQUIRE(m.state.FindReady("what it is here") != nullptr);
  CHECK(m.state.FindReady("what it is here")->plan == m.plan);
  CHECK_FALSE(m.state.plans().contains("question 5.1"));

  // A dispatcher that asks under the name of a plan gets that plan served again when it wants so.
  response.mutable_plans(0)->set_asked(true);
  m.state.OnWorkResponse(1, response, m.now);
  CHECK(m.state.FindReady("what it is here") == nullptr);
  response.mutable_plans(0)->set_asked(false);
  m.state.OnWorkResponse(1, response, m.now);
  m.state.OnPlan("what it is here",
                 WorkerMachine::ReadyPlan{m.plan, "digest", "what it is here", ""}, m.now);
  CHECK(m.state.FindReady("what it is here") != nullptr);
}

TEST_CASE("a want list that is refused replaces the one before as well", "[worker_machine]") {
  Machine m;
  m.Wants(2);
  v1::WorkResponse response;
  response.set_term(5);
  response.mutable_id()->set_n(1);
  response.add_plans()->set_fingerprint(m.plan->facts().fingerprint().ToString());
  response.mutable_plans(0)->set_asked(true);
  m.state.OnWorkResponse(1, response, m.now);
  REQUIRE(m.state.FindReady(m.plan->facts().fingerprint().ToString()) == nullptr);
  m.WantsOf(kStream, 2);
  m.Act();
  CHECK(m.refused == std::set<WorkerMachine::StreamId>{kStream});
  CHECK_FALSE(m.state.NextBuild(m.now));
}

TEST_CASE("a batch that is built goes to all that wait for it, and is counted as shared",
          "[worker][shared]") {
  Machine m;
  m.Wants();
  m.AddTwin();
  const std::optional<BuildQueue::Task> task = m.state.NextBuild(m.now);
  REQUIRE(task);
  CHECK_FALSE(m.state.NextBuild(m.now));
  m.Act();
  m.state.OnBuilt(*task, nullptr, 100, 0.001, {}, m.now);
  m.Act();
  CHECK(m.sent == std::set<WorkerMachine::StreamId>{kStream, kTwin});
  CHECK(m.state.shared_batches() == 1);
}

TEST_CASE("a want list for what is built already is answered at once", "[worker][shared]") {
  Machine m;
  m.Wants(2);
  for (int i = 0; i < 2; ++i) {
    m.state.OnBuilt(*m.state.NextBuild(m.now), nullptr, 1, 0.001, {}, m.now);
  }
  m.Act();
  m.sent.clear();
  m.AddTwin(2);
  m.Act();
  CHECK(m.sent == std::set<WorkerMachine::StreamId>{kTwin});
}

TEST_CASE("a batch that cannot be built is refused to all that wait for it", "[worker][shared]") {
  Machine m;
  m.Wants();
  m.AddTwin();
  m.state.OnBuildFailed(*m.state.NextBuild(m.now), Internal("no such node"), m.now);
  m.Act();
  CHECK(m.refused == std::set<WorkerMachine::StreamId>{kStream, kTwin});
}

TEST_CASE("a batch of a plan that failed meanwhile is sent to nobody", "[worker][shared]") {
  Machine m;
  m.Wants();
  m.AddTwin();
  const std::optional<BuildQueue::Task> task = m.state.NextBuild(m.now);
  REQUIRE(task);
  m.state.OnPlan(m.plan->facts().fingerprint().ToString(), DataLoss("a.bin is bad"), m.now);
  m.state.OnBuilt(*task, nullptr, 100, 0.001, {}, m.now);
  m.Act();
  CHECK(m.sent.empty());
  CHECK(m.refused == std::set<WorkerMachine::StreamId>{kStream, kTwin});
}

TEST_CASE("a worker counts the time of each stage, and tells only so many apart", "[worker]") {
  Machine m;
  constexpr int kBatches = 100;
  m.Wants(kBatches);
  for (int i = 0; i < kBatches; ++i) {
    const std::optional<BuildQueue::Task> task = m.state.NextBuild(m.now);
    REQUIRE(task);
    const std::string operation = "tensors: " + std::to_string(i);
    m.state.OnBuilt(*task, nullptr, 0, 0.25, {{"closure", 0.125}, {operation, 0.125}}, m.now);
  }
  const auto& stages = m.state.build_seconds();
  CHECK(stages.size() == WorkerMachine::kMaxStages);
  CHECK(stages.at("closure").count == kBatches);
  CHECK(stages.at("closure").seconds == kBatches * 0.125);
  CHECK(stages.at("tensors: 61").count == 1);
  CHECK(stages.at("others").count == kBatches - 62);
}

/// Lets time pass until the machine opens its next stream to a dispatcher. Returns that time;
/// nullopt if it opens none within `limit`.
std::optional<Time> Reopened(Machine& m, Duration limit) {
  for (const Time end = m.now + limit; m.now < end; m.now = m.now + 10 * kMs) {
    m.state.Tick(m.now);
    for (const auto& action : m.state.TakeActions()) {
      if (std::holds_alternative<WorkerAction::OpenWork>(action)) return m.now;
    }
  }
  return std::nullopt;
}

TEST_CASE("a worker waits a random time for a dispatcher, longer as streams do not last",
          "[worker][reconnect]") {
  Machine m;
  std::vector<double> pauses;
  std::uint64_t attempt = 1;
  const auto lose = [&] {
    const Time lost = m.now;
    m.state.OnWorkClosed(attempt++, Unavailable("reset"), m.now);
    const auto again = Reopened(m, std::chrono::seconds(10));
    REQUIRE(again);
    // The dispatcher answers once, so that the worker counts it as reached.
    v1::WorkResponse response;
    response.set_term(5);
    m.state.OnWorkResponse(attempt, response, m.now);
    return ToSeconds(*again - lost);
  };
  for (int i = 0; i < 5; ++i) pauses.push_back(lose());
  CHECK(pauses[0] == Approx(0.55).margin(0.02));
  CHECK(pauses[1] == Approx(1.05).margin(0.02));
  // No pause grows beyond the round that a dispatcher waits for at most.
  CHECK(pauses[2] == Approx(1.3).margin(0.02));
  CHECK(pauses[4] == Approx(1.3).margin(0.02));
  // After a stream that lasts, the pause is as short as the first one.
  for (int i = 0; i < 300; ++i) {
    m.now = m.now + 100 * kMs;
    v1::WorkResponse heartbeat;
    heartbeat.set_term(5);
    m.state.OnWorkResponse(attempt, heartbeat, m.now);
  }
  CHECK(lose() == Approx(0.55).margin(0.02));
}

TEST_CASE("a worker leaves a dispatcher that is silent, and not at the moment that all do",
          "[worker][reconnect]") {
  Machine m;
  const Time heard = m.now;
  const auto again = Reopened(m, std::chrono::seconds(10));
  REQUIRE(again);
  CHECK(ToSeconds(*again - heard) == Approx(3.55).margin(0.02));
}

TEST_CASE("batches are compressed as the last want list says, but in shared memory never",
          "[worker][compression]") {
  for (const bool shares_memory : {false, true}) {
    Machine m;
    Peer peer{"other"};
    peer.shares_memory = shares_memory;
    REQUIRE(m.state.OnStreamOpened(kTwin, peer).ok());
    v1::WantList list = m.List(2);
    const auto sent_as = [&](v1::Compression compression) -> std::optional<Compression> {
      list.set_compression(compression);
      m.state.OnWants(kTwin, list, m.now);
      m.Act();
      const auto task = m.state.NextBuild(m.now);
      if (!task) return std::nullopt;
      m.state.OnBuilt(*task, std::make_shared<BuiltBatch>(), 10, 0.1, {}, m.now);
      for (const auto& action : m.state.TakeActions()) {
        if (const auto* batch = std::get_if<WorkerAction::SendBatch>(&action)) {
          m.state.OnSent(kTwin, m.now);
          return batch->compression;
        }
      }
      return std::nullopt;
    };
    CHECK(sent_as(v1::COMPRESSION_ZSTD) ==
          (shares_memory ? Compression::kOff : Compression::kZstd));
    CHECK(sent_as(v1::COMPRESSION_LZ4) == (shares_memory ? Compression::kOff : Compression::kLz4));
  }
}

}  // namespace
}  // namespace millrace
