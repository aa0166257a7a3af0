#include <catch2/catch.hpp>

#include <algorithm>
#include <atomic>
#include <future>
#include <set>

#include "common/base/protocol_version.h"
#include "common/transport/in_process.h"
#include "common/transport/wire.h"
#include "server/worker/worker_service.h"
#include "tests/support/fake_plan.h"
#include "tests/unit/common/transport/recorder.h"

namespace millrace {
namespace {

using test::FakePlan;
using test::Recorder;
using test::TestDispatcher;

class FakeProvider final : public PlanProvider {
 public:
  Result<std::shared_ptr<const Plan>> CompilePlan(const v1::PipelineText& pipeline) override {
    if (pipeline.yaml() == "bad") return InvalidArgument("no such pipeline");
    if (damaged) return DataLoss("b.bin was written to");
    return std::shared_ptr<const Plan>(plan);
  }
  bool CanCompile(const v1::PlanSpec& spec) override {
    return !opening || spec.dataset() != "slow";
  }
  void OpenDatasets(const std::function<void()>& on_change) override {
    if (opening) open_slow.get_future().wait();
    opening = false;
    on_change();
  }
  std::map<std::string, v1::DatasetState> DatasetStates() override {
    v1::DatasetState state;
    state.set_digest("d");
    return {{"data", state}};
  }
  bool CheckFiles() override {
    ++looks;
    return damaged && !told.exchange(true);
  }
  std::vector<v1::FileEntry> ListFiles(const std::string&) override {
    v1::FileEntry entry;
    entry.set_name("a.bin");
    return {entry};
  }

  std::atomic<bool> opening{false};  // the dataset `slow`, until open_slow is set
  std::promise<void> open_slow;
  std::atomic<bool> damaged = false;
  std::atomic<bool> told = false;
  std::atomic<int> looks = 0;
  std::shared_ptr<FakePlan> plan = std::make_shared<FakePlan>(StepOptions{1000, 10, 0, false, 1});
};

/// A worker that has joined a dispatcher which the test plays.
struct Fixture {
  InProcessNetwork network;
  std::shared_ptr<FakeClock> clock = std::make_shared<FakeClock>();
  std::shared_ptr<TestDispatcher> dispatcher = std::make_shared<TestDispatcher>();
  std::shared_ptr<FakeProvider> provider = std::make_shared<FakeProvider>();
  std::shared_ptr<WorkerService> worker;
  test::Accepted<v1::WorkRequest, v1::WorkResponse> work;
  std::string fingerprint = provider->plan->fingerprint().ToString();
  std::uint64_t plays = 0;

  std::atomic<std::uint64_t> memory_used = 0;

  explicit Fixture(bool opening = false, std::uint64_t memory_limit = 0) {
    provider->opening = opening;
    network.AddDispatcher("d:1", dispatcher);
    WorkerOptions options;
    options.name = "w1";
    options.address = "w1:1";
    options.dispatcher = "d:1";
    options.memory_limit = memory_limit;
    options.max_streams = 4;
    options.memory_use = [this] { return MemoryUse{memory_used, 0}; };
    worker = std::make_shared<WorkerService>(options, provider, network.MakeConnector("w1:1"),
                                             clock, MakeNullLogger());
    network.AddWorker("w1:1", worker);
    worker->Start();
    work = dispatcher->workers.Wait();
  }
  ~Fixture() {
    worker->Stop();
    network.Kill("w1:1");
  }

  void Say(v1::WorkResponse response, std::uint64_t term = 5) {
    response.set_term(term);
    response.mutable_id()->set_term(5);
    response.mutable_id()->set_n(1);
    work.stream->Write(response);
    REQUIRE(work.recorder->WaitForWrites(static_cast<int>(++plays)));
  }
  /// The dispatcher lives: it asks for something, and the worker has heard it.
  void Ask() {
    v1::WorkResponse response;
    response.add_plans()->set_fingerprint(fingerprint);
    response.add_list_files("data");
    Say(response);
    REQUIRE(WaitReport([](const v1::WorkRequest& r) {
      const auto data = r.datasets().find("data");
      return data != r.datasets().end() && data->second.file_list_size() > 0;
    }));
  }
  /// Reports until one fits.
  template <class F>
  std::optional<v1::WorkRequest> WaitReport(F fits) {
    for (int i = 0; i < 200; ++i) {
      auto report = work.recorder->Next();
      if (!report || fits(*report)) return report;
    }
    return std::nullopt;
  }
  void MakeReady(const std::string& yaml = "good") {
    v1::WorkResponse response;
    v1::PlanSpec& spec = *response.add_plans();
    spec.set_fingerprint(fingerprint);
    spec.mutable_pipeline()->set_yaml(yaml);
    Say(response);
  }
};

v1::WantList Wants(const std::string& fingerprint, std::uint32_t batches, std::uint32_t room) {
  v1::WantList list;
  list.set_fingerprint(fingerprint);
  list.set_credit_bytes(1 << 30);
  v1::Want& want = *list.add_wants();
  want.mutable_lease()->set_n(1);
  want.set_room(room);
  want.mutable_shard()->set_stride(10);
  want.mutable_shard()->set_examples(10);
  want.mutable_shard()->set_batches(batches);
  return list;
}

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
  f.MakeReady();
  auto ready = f.WaitReport(
      [](const auto& r) { return r.plans_size() == 1 && r.plans(0).phase() == v1::READY; });
  REQUIRE(ready);
  CHECK(ready->plans(0).static_digest() == f.provider->plan->static_digest());
  CHECK(f.worker->OnGetStatic(f.fingerprint)->digest == f.provider->plan->static_digest());
  CHECK(f.worker->OnGetStatic("other").status().code() == StatusCode::kNotFound);
}

TEST_CASE("a plan waits for its own dataset alone", "[worker]") {
  Fixture f(true);
  v1::WorkResponse response;
  // By fingerprint, so that the one that has to wait comes first.
  for (const std::string id : {"a", f.fingerprint.c_str()}) {
    v1::PlanSpec& spec = *response.add_plans();
    spec.set_fingerprint(id);
    spec.set_dataset(id == "a" ? "slow" : "data");
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
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (logger->count < 1 && std::chrono::steady_clock::now() < until) std::this_thread::yield();
  CHECK(logger->count == 1);
  // However often it tries, it says so once a minute at most.
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
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
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

TEST_CASE("a plan that fails here says why, and wants for it are refused", "[worker]") {
  Fixture f;
  f.MakeReady("bad");
  auto failed = f.WaitReport(
      [](const auto& r) { return r.plans_size() == 1 && r.plans(0).phase() == v1::FAILED; });
  REQUIRE(failed);
  CHECK(failed->plans(0).error() == "no such pipeline");
  auto consumer = std::make_shared<Recorder<IncomingPart>>();
  auto stream = f.network.MakeConnector("c:1")->StreamBatches("w1:1", consumer);
  stream->Write(Wants(f.fingerprint, 1, 1));
  auto part = consumer->Next();
  REQUIRE(part);
  CHECK(part->part.refused().lease().n() == 1);
  CHECK(part->part.refused().code() == static_cast<std::uint32_t>(StatusCode::kFailedPrecondition));
}

TEST_CASE("a stream beyond the worker's limit is refused with it, and those of before go on",
          "[worker][limits]") {
  Fixture f;
  std::vector<std::shared_ptr<Recorder<IncomingPart>>> consumers;
  std::vector<std::shared_ptr<Stream<v1::WantList>>> streams;
  for (int i = 0; i < 5; ++i) {
    consumers.push_back(std::make_shared<Recorder<IncomingPart>>());
    streams.push_back(f.network.MakeConnector("c:1")->StreamBatches("w1:1", consumers.back()));
  }
  const auto closed = consumers.back()->WaitClosed();
  REQUIRE(closed);
  CHECK(closed->code() == StatusCode::kResourceExhausted);
  CHECK(closed->message().find("4 streams") != std::string::npos);
  streams.front()->Write(Wants(f.fingerprint, 1, 1));
  CHECK(consumers.front()->Next());  // an answer
}

TEST_CASE("a worker short of memory builds less ahead, and goes on when there is some again",
          "[worker][memory]") {
  constexpr std::uint64_t kLimit = std::uint64_t{4} << 30;
  Fixture f(false, kLimit);
  f.MakeReady();
  REQUIRE(f.WaitReport(
      [](const auto& r) { return r.plans_size() == 1 && r.plans(0).phase() == v1::READY; }));
  const auto budget = [&](auto fits) {
    f.Ask();
    f.clock->Advance(std::chrono::seconds(1));
    f.worker->Tick();
    return f.WaitReport([&](const v1::WorkRequest& r) { return fits(r.memory_limit_bytes()); });
  };
  constexpr std::uint64_t kAll = std::uint64_t{1} << 30;  // of WorkerOptions
  CHECK(budget([](std::uint64_t bytes) { return bytes == kAll; }));
  f.memory_used = kLimit - 1000;
  CHECK(budget([](std::uint64_t bytes) { return bytes == 1000; }));
  f.memory_used = 2 * kLimit;
  CHECK(budget([](std::uint64_t bytes) { return bytes == 0; }));
  // A consumer gets batch after batch all the same.
  auto consumer = std::make_shared<Recorder<IncomingPart>>();
  auto stream = f.network.MakeConnector("c:1")->StreamBatches("w1:1", consumer);
  stream->Write(Wants(f.fingerprint, 8, 8));
  auto part = consumer->Next();
  REQUIRE(part);
  CHECK(part->part.at().example() == 0);
  f.memory_used = 0;
  CHECK(budget([](std::uint64_t bytes) { return bytes == kAll; }));
  for (int i = 0; i < 7; ++i) CHECK(consumer->Next());
}

TEST_CASE("a consumer of the protocol before is served, one of another is told both versions",
          "[worker][versions]") {
  Fixture f;
  f.MakeReady();
  REQUIRE(f.WaitReport(
      [](const auto& r) { return r.plans_size() == 1 && r.plans(0).phase() == v1::READY; }));
  v1::WantList wants = Wants(f.fingerprint, 1, 1);
  const auto served = [&] {
    auto consumer = std::make_shared<Recorder<IncomingPart>>();
    auto stream = f.network.MakeConnector("c:1")->StreamBatches("w1:1", consumer);
    stream->Write(wants);
    return consumer->Next().has_value();
  };
  CHECK(served());  // protocol 1 says neither its version nor its job
  wants.set_protocol(kProtocol);
  wants.set_job("x");
  wants.set_priority(7);
  CHECK(served());
  wants.set_protocol(kProtocol + 1);
  auto consumer = std::make_shared<Recorder<IncomingPart>>();
  auto stream = f.network.MakeConnector("c:1")->StreamBatches("w1:1", consumer);
  stream->Write(wants);
  const auto closed = consumer->WaitClosed();
  REQUIRE(closed);
  CHECK(closed->code() == StatusCode::kFailedPrecondition);
  CHECK(closed->message().find("protocol " + std::to_string(kProtocol + 1)) != std::string::npos);
  CHECK(closed->message().find(std::to_string(kOldestProtocol) + " and " +
                               std::to_string(kProtocol)) != std::string::npos);
  MetricSet metrics;
  f.worker->AddMetrics(metrics);
  CHECK(metrics.values(Metric::kRefusedRequests).at({"StreamBatches", "failed_precondition"}) == 1);
}

TEST_CASE("a consumer gets the plan's batches in order, within its room", "[worker]") {
  Fixture f;
  f.MakeReady();
  REQUIRE(f.WaitReport(
      [](const auto& r) { return r.plans_size() == 1 && r.plans(0).phase() == v1::READY; }));
  auto consumer = std::make_shared<Recorder<IncomingPart>>();
  auto stream = f.network.MakeConnector("c:1")->StreamBatches("w1:1", consumer);
  stream->Write(Wants(f.fingerprint, 8, 3));
  std::set<std::uint64_t> positions;
  for (int i = 0; i < 3; ++i) {
    auto part = consumer->Next();
    REQUIRE(part);
    positions.insert(part->part.at().example());
    CHECK(part->part.total_bytes() == part->data_bytes());
    BatchScratch scratch;
    auto expected = f.provider->plan->Batch(0, {part->part.at().example(), 10}, scratch);
    REQUIRE(expected.ok());
    std::vector<std::byte> bytes(part->data_bytes());
    wire::GatherInto(*part, bytes);
    CHECK(std::equal(bytes.begin(), bytes.end(), (*expected)->bytes().begin(),
                     (*expected)->bytes().end()));
    CHECK(part->part.digest() == (*expected)->digest().ToBytes());
  }
  CHECK(positions == std::set<std::uint64_t>{0, 10, 20});
}

TEST_CASE("a plan that was dropped and is asked for again builds as before", "[worker]") {
  Fixture f;
  for (int turn = 0; turn < 2; ++turn) {
    f.MakeReady();
    REQUIRE(f.WaitReport(
        [](const auto& r) { return r.plans_size() == 1 && r.plans(0).phase() == v1::READY; }));
    auto consumer = std::make_shared<Recorder<IncomingPart>>();
    auto stream = f.network.MakeConnector("c:1")->StreamBatches("w1:1", consumer);
    stream->Write(Wants(f.fingerprint, 1, 1));
    const auto part = consumer->Next();
    REQUIRE(part);
    CHECK(part->part.refused().message() == "");
    CHECK(part->data_bytes() > 0);
    stream->Close(Cancelled("done"));
    REQUIRE(consumer->WaitClosed());
    // A plan stays while a stream wants it: until the end of this one has come through.
    std::optional<v1::WorkRequest> report;
    do {
      f.Say({});
      f.clock->Advance(std::chrono::seconds(1));
      f.worker->Tick();
      report = f.work.recorder->Next();
    } while (report && report->plans_size() != 0);
    REQUIRE(report);
    f.provider->plan = std::make_shared<FakePlan>(StepOptions{1000, 10, 0, false, 1});
  }
}

/// The next part that refuses a lease; pulses may come between.
std::optional<v1::Refused> NextRefusal(Recorder<IncomingPart>& consumer) {
  while (auto part = consumer.Next()) {
    if (part->part.has_refused()) return part->part.refused();
    if (!part->part.has_alive()) return std::nullopt;
  }
  return std::nullopt;
}

TEST_CASE("files are looked at once a second; a plan of damaged ones fails, and its batches go",
          "[worker][files]") {
  Fixture f;
  f.MakeReady();
  REQUIRE(f.WaitReport(
      [](const auto& r) { return r.plans_size() == 1 && r.plans(0).phase() == v1::READY; }));
  auto consumer = std::make_shared<Recorder<IncomingPart>>();
  auto stream = f.network.MakeConnector("c:1")->StreamBatches("w1:1", consumer);
  v1::WantList wants = Wants(f.fingerprint, 8, 3);
  wants.set_credit_bytes(0);  // the first is sent as `next`, the others stay built
  stream->Write(wants);
  REQUIRE(consumer->Next());
  f.provider->damaged = true;
  f.clock->Advance(std::chrono::milliseconds(500));
  f.worker->Tick();
  CHECK(f.provider->looks == 0);
  f.clock->Advance(std::chrono::milliseconds(500));
  f.worker->Tick();
  const auto failed = f.WaitReport(
      [](const auto& r) { return r.plans_size() == 1 && r.plans(0).phase() == v1::FAILED; });
  REQUIRE(failed);
  CHECK(failed->plans(0).error() == "b.bin was written to");
  CHECK(failed->plans(0).error_code() == static_cast<std::uint32_t>(StatusCode::kDataLoss));
  CHECK(failed->memory_bytes() == 0);
  const auto refused = NextRefusal(*consumer);
  REQUIRE(refused);
  CHECK(refused->lease().n() == 1);
  CHECK(refused->code() == static_cast<std::uint32_t>(StatusCode::kDataLoss));
  CHECK(refused->message() == "b.bin was written to");
  // New wants too.
  wants.mutable_wants(0)->mutable_lease()->set_n(2);
  stream->Write(wants);
  const auto again = NextRefusal(*consumer);
  REQUIRE(again);
  CHECK(again->lease().n() == 2);
  CHECK(again->code() == static_cast<std::uint32_t>(StatusCode::kDataLoss));
}

TEST_CASE("a range beyond the epoch is refused, not built", "[worker]") {
  Fixture f;
  f.MakeReady();
  REQUIRE(f.WaitReport(
      [](const auto& r) { return r.plans_size() == 1 && r.plans(0).phase() == v1::READY; }));
  auto consumer = std::make_shared<Recorder<IncomingPart>>();
  auto stream = f.network.MakeConnector("c:1")->StreamBatches("w1:1", consumer);
  v1::WantList wants = Wants(f.fingerprint, 1, 1);
  wants.mutable_wants(0)->mutable_shard()->set_first_example(5000);
  stream->Write(wants);
  auto part = consumer->Next();
  REQUIRE(part);
  CHECK(part->part.refused().code() == static_cast<std::uint32_t>(StatusCode::kOutOfRange));
}

TEST_CASE("a want list that makes no sense ends its stream with the reason", "[worker]") {
  Fixture f;
  f.MakeReady();
  REQUIRE(f.WaitReport(
      [](const auto& r) { return r.plans_size() == 1 && r.plans(0).phase() == v1::READY; }));
  auto consumer = std::make_shared<Recorder<IncomingPart>>();
  auto stream = f.network.MakeConnector("c:1")->StreamBatches("w1:1", consumer);
  stream->Write(Wants(f.fingerprint, 0, 1));
  CHECK(consumer->WaitClosed()->code() == StatusCode::kInvalidArgument);
}

TEST_CASE("a want list without a fingerprint ends its stream: it would be a new job each time",
          "[worker]") {
  Fixture f;
  auto consumer = std::make_shared<Recorder<IncomingPart>>();
  auto stream = f.network.MakeConnector("c:1")->StreamBatches("w1:1", consumer);
  stream->Write(Wants("", 1, 1));
  const std::optional<Status> closed = consumer->WaitClosed();
  REQUIRE(closed);
  CHECK(closed->message().find("a want list without a fingerprint") != std::string::npos);
}

TEST_CASE("a draining worker asks its consumers to go elsewhere and tells the dispatcher",
          "[worker]") {
  Fixture f;
  f.MakeReady();
  REQUIRE(f.WaitReport(
      [](const auto& r) { return r.plans_size() == 1 && r.plans(0).phase() == v1::READY; }));
  auto consumer = std::make_shared<Recorder<IncomingPart>>();
  auto stream = f.network.MakeConnector("c:1")->StreamBatches("w1:1", consumer);
  stream->Write(Wants(f.fingerprint, 1, 1));
  REQUIRE(consumer->Next());
  v1::WorkResponse drain;
  v1::PlanSpec& spec = *drain.add_plans();
  spec.set_fingerprint(f.fingerprint);
  drain.set_drain(true);
  f.Say(drain);
  auto part = consumer->Next();
  REQUIRE(part);
  CHECK(part->part.going_away());
  CHECK(f.WaitReport([](const auto& r) { return r.draining(); }));
  CHECK(f.worker->Idle());
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
  f.MakeReady();
  REQUIRE(f.WaitReport(
      [](const auto& r) { return r.plans_size() == 1 && r.plans(0).phase() == v1::READY; }));
  f.network.Kill("d:1");
  REQUIRE(f.work.recorder->WaitClosed());
  auto restarted = std::make_shared<TestDispatcher>();
  f.network.AddDispatcher("d:1", restarted);
  // The worker's own handler may still be on its way: tick until it has seen the break and
  // returned.
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

}  // namespace
}  // namespace millrace
