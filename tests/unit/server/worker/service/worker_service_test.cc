// Tests of a worker and its dispatcher.
#include <algorithm>
#include <map>
#include <thread>

#include "tests/support/fake_clock.h"
#include "tests/unit/server/worker/service/worker_fixture.h"

namespace millrace {
namespace {

using test::FakeProvider;
using test::Fixture;
using test::TestDispatcher;

TEST_CASE("a worker tells the whole truth at first, and again once a second", "[worker]") {
  Fixture f;
  auto first = f.work.recorder->Next();
  REQUIRE(first);
  CHECK(first->name() == "w1");
  CHECK(first->self().address() == "w1:1");
  CHECK(first->datasets().at("data").digest() == "d");
  CHECK(first->nonce().size() == 16);
  f.Say({});
  f.clock->Advance(std::chrono::seconds(1));
  f.worker->Tick();
  auto next = f.WaitReport([](const auto& r) { return r.id().n() == 1; });
  REQUIRE(next);
  CHECK(next->id().term() == 5);
}

TEST_CASE("a plan is compiled when the dispatcher asks, and said to be ready", "[worker]") {
  Fixture f;
  f.Compile();
  auto ready = f.WaitReport(
      [](const auto& r) { return r.plans_size() == 1 && r.plans(0).phase() == v1::READY; });
  REQUIRE(ready);
  CHECK(ready->plans(0).static_digest() == f.provider->plan->facts().static_digest());
  CHECK(f.worker->OnGetStatic(f.fingerprint, {"peer"})->digest ==
        f.provider->plan->facts().static_digest());
  CHECK(f.worker->OnGetStatic("other", {"peer"}).status().code() == StatusCode::kNotFound);
}

TEST_CASE("a plan waits for its own dataset alone", "[worker]") {
  Fixture f(true);
  v1::WorkResponse response;
  // The plan that has to wait ("a") comes first. So it would hold up the other if plans waited for
  // one another.
  for (const std::string id : {"a", f.fingerprint.c_str()}) {
    v1::PlanSpec& spec = *response.add_plans();
    spec.set_fingerprint(id);
    spec.add_datasets(id == "a" ? "slow" : "data");
    spec.mutable_pipeline()->set_yaml(id == "a" ? "bad" : "good");
  }
  f.Say(response);
  const auto phase = [](const v1::WorkRequest& report, const std::string& plan) {
    for (const auto& p : report.plans()) {
      if (p.fingerprint() == plan) return p.phase();
    }
    return v1::COMPILING;
  };
  const auto ready =
      f.WaitReport([&](const auto& r) { return phase(r, f.fingerprint) == v1::READY; });
  REQUIRE(ready);
  CHECK(phase(*ready, "a") == v1::COMPILING);
  f.provider->open_slow.set_value();
  CHECK(f.WaitReport([&](const auto& r) { return phase(r, "a") == v1::FAILED; }));
}

TEST_CASE("a worker without a dispatcher says so at once and then once a minute", "[worker]") {
  class CountingLogger final : public Logger {
   public:
    void Log(LogLevel level, std::string_view event,
             std::initializer_list<LogField> fields) override {
      if (level != LogLevel::kWarning || event.find("no dispatcher") == std::string_view::npos) {
        return;
      }
      ++count;
      const bool named = std::any_of(fields.begin(), fields.end(), [](const LogField& field) {
        return field.value == "nowhere:1";
      });
      if (!named) ++nameless;
    }
    std::atomic<int> count{0};
    std::atomic<int> nameless{0};
  };
  InProcessNetwork network;
  const auto dispatcher = std::make_shared<test::TestDispatcher>();
  dispatcher->refuse = true;
  network.AddDispatcher("nowhere:1", dispatcher);
  const auto clock = std::make_shared<FakeClock>();
  const auto logger = std::make_shared<CountingLogger>();
  WorkerOptions options;
  options.address = "w1:1";
  options.dispatcher = "nowhere:1";
  const auto worker = std::make_shared<WorkerService>(options, std::make_shared<FakeProvider>(),
                                                      network.MakeConnector("w1:1"), clock, logger);
  worker->Start();
  const auto until = std::chrono::steady_clock::now() + test::kPatience;
  while (logger->count < 1 && std::chrono::steady_clock::now() < until) std::this_thread::yield();
  CHECK(logger->count == 1);
  // The worker tries often, but logs this at most once a minute.
  const Time began = clock->Now();
  for (int tries = 2; tries < 40; ++tries) {
    while (dispatcher->work_attempts < tries && std::chrono::steady_clock::now() < until) {
      clock->Advance(std::chrono::milliseconds(100));
      worker->Tick();
      std::this_thread::yield();
    }
    CHECK(dispatcher->work_attempts >= tries);
    CHECK(logger->count <= 1 + (clock->Now() - began) / std::chrono::minutes(1));
  }
  while (logger->count < 2 && std::chrono::steady_clock::now() < until) {
    clock->Advance(std::chrono::seconds(5));
    worker->Tick();
    std::this_thread::yield();
  }
  CHECK(logger->count >= 2);
  CHECK(logger->nameless == 0);
  worker->Stop();
}

TEST_CASE("of several dispatchers a worker finds the one that takes it", "[worker]") {
  InProcessNetwork network;
  const auto standby = std::make_shared<test::TestDispatcher>();
  standby->refuse = true;
  network.AddDispatcher("standby:1", standby);
  const auto leader = std::make_shared<test::TestDispatcher>();
  network.AddDispatcher("leader:1", leader);
  const auto clock = std::make_shared<FakeClock>();
  WorkerOptions options;
  options.address = "w1:1";
  options.dispatcher = "standby:1,leader:1";
  const auto worker =
      std::make_shared<WorkerService>(options, std::make_shared<FakeProvider>(),
                                      network.MakeConnector("w1:1"), clock, MakeNullLogger());
  worker->Start();
  const auto until = std::chrono::steady_clock::now() + test::kPatience;
  const auto tick_until = [&](const auto& done) {
    while (!done() && std::chrono::steady_clock::now() < until) {
      clock->Advance(std::chrono::milliseconds(100));
      worker->Tick();
      std::this_thread::yield();
    }
    return done();
  };
  CHECK(tick_until([&] { return leader->work_attempts == 1; }));
  // It loses the leader, and comes back to it by way of the standby.
  auto work = leader->workers.Wait();
  const int refused = standby->work_attempts;
  work.stream->Close(Unavailable("not the leader"));
  CHECK(tick_until([&] { return leader->work_attempts == 2; }));
  CHECK(standby->work_attempts > refused);
  worker->Stop();
}

TEST_CASE("a dispatcher of a lower term than seen is left", "[worker]") {
  Fixture f;
  f.Say({}, 5);
  v1::WorkResponse old;
  old.set_term(4);
  f.work.stream->Write(old);
  CHECK(f.work.recorder->WaitClosed()->code() == StatusCode::kCancelled);
}

TEST_CASE("a worker comes back by itself to a restarted dispatcher, with its number and plans",
          "[worker]") {
  Fixture f;
  f.Serve();
  f.network.Kill("d:1");
  REQUIRE(f.work.recorder->WaitClosed());
  auto restarted = std::make_shared<TestDispatcher>();
  f.network.AddDispatcher("d:1", restarted);
  // The worker's handler may not have seen the break yet. So this ticks until the worker has come
  // back.
  test::Accepted<v1::WorkRequest, v1::WorkResponse> again;
  std::thread ticks([&] { again = restarted->workers.Wait(); });
  std::atomic<bool> joined = false;
  std::thread ticking([&] {
    while (!joined) {
      f.clock->Advance(std::chrono::milliseconds(100));
      f.worker->Tick();
      std::this_thread::yield();
    }
  });
  ticks.join();
  joined = true;
  ticking.join();
  REQUIRE(again.stream);
  auto report = again.recorder->Next();
  REQUIRE(report);
  CHECK(report->id().n() == 1);
  CHECK(report->plans(0).phase() == v1::READY);
}

TEST_CASE("a worker measures what its dispatcher asks for, and says why it cannot",
          "[worker][columns]") {
  Fixture f;
  v1::WorkResponse response;
  v1::MeasureTask& task = *response.add_measure();
  task.mutable_set()->set_operations("known");
  task.mutable_set()->set_examples(600);
  v1::ExampleRun& run = *task.add_runs();
  run.set_first(256);
  run.set_count(344);
  SECTION("it can") {
    f.Say(response);
    std::map<std::uint64_t, v1::Measured> measured;
    REQUIRE(f.WaitReport([&](const v1::WorkRequest& report) {
      CHECK(report.measuring() == kMeasuringVersion);
      for (const v1::Measured& some : report.measured()) measured[some.run().first()] = some;
      return measured.size() == 2;
    }));
    CHECK(measured[256].columns(0).values() == std::string(256, 2));
    CHECK(measured[512].columns(0).values() == std::string(88, 3));
    CHECK(measured[512].set().operations() == "known");
    MetricSet metrics;
    f.worker->AddMetrics(metrics);
    CHECK(metrics.values(Metric::kColumnExamples).at({}) == 344);
  }
  SECTION("it cannot") {
    task.mutable_set()->set_operations("unknown");
    f.Say(response);
    const auto report =
        f.WaitReport([](const v1::WorkRequest& r) { return r.measured_size() > 0; });
    REQUIRE(report);
    CHECK(report->measured(0).error() == "no such source here");
    CHECK(report->measured(0).error_code() ==
          static_cast<std::uint32_t>(StatusCode::kFailedPrecondition));
  }
}

TEST_CASE("a plan that cannot be compiled for the moment is compiled again", "[worker][plans]") {
  Fixture f;
  f.provider->later = true;
  f.Compile();
  REQUIRE(f.WaitReport([](const v1::WorkRequest& r) {
    return r.plans_size() == 1 && r.plans(0).phase() == v1::FAILED;
  }));
  f.provider->later = false;
  for (int second = 0; second < 3; ++second) {
    f.clock->Advance(std::chrono::seconds(1));
    f.worker->Tick();
    f.Compile();  // the dispatcher still wants it
  }
  REQUIRE(f.WaitReport([](const v1::WorkRequest& r) {
    return r.plans_size() == 1 && r.plans(0).phase() == v1::READY;
  }));
}

}  // namespace
}  // namespace millrace
