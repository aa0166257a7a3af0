// A worker for tests. The test plays its dispatcher and its consumers, and its plan is a FakePlan.
#pragma once

#include <catch2/catch.hpp>

#include <atomic>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/protocol_version.h"
#include "server/worker/service/worker_service.h"
#include "tests/support/fake_clock.h"
#include "tests/support/fake_plan.h"
#include "tests/support/in_process.h"
#include "tests/unit/common/transport/recorder.h"

namespace millrace::test {

class FakeProvider final : public PlanProvider {
 public:
  Result<std::shared_ptr<const Plan>> CompilePlan(const v1::PipelineText& pipeline) override {
    if (pipeline.yaml() == "bad") return InvalidArgument("no such pipeline");
    if (later) return Unavailable("its column cannot be fetched");
    if (damaged) return DataLoss("b.bin was written to");
    if (moved_to_damage) return DataLoss("the folder where the dataset lies by now is damaged");
    return std::shared_ptr<const Plan>(plan);
  }
  bool CanCompile(const v1::PlanSpec& spec) override {
    return !opening || spec.datasets(0) != "slow";
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
  bool CheckFiles(const std::stop_token&) override {
    ++looks;
    return (damaged || moved_to_damage) && !told.exchange(true);
  }
  Status CheckPlan(const Plan& of) override {
    if (&of != plan.get()) return DataLoss("another plan is checked");
    ++checked;
    return damaged ? DataLoss("b.bin was written to") : OkStatus();
  }
  std::vector<v1::FileEntry> ListFiles(const std::string&) override {
    v1::FileEntry entry;
    entry.set_name("a.bin");
    return std::vector(files, entry);
  }

  Result<std::unique_ptr<RangeMeasurer>> NewMeasurer(const v1::ColumnSet& set,
                                                     const v1::PipelineText&) override {
    struct Measurer final : RangeMeasurer {
      Result<std::vector<v1::MeasuredColumn>> Measure(const v1::ExampleRun& run) override {
        v1::MeasuredColumn column;
        column.set_width(1);
        column.set_values(std::string(run.count(), static_cast<char>(run.first() / 256 + 1)));
        return std::vector<v1::MeasuredColumn>{column};
      }
    };
    if (set.operations() != "known") return FailedPrecondition("no such source here");
    return std::unique_ptr<RangeMeasurer>(std::make_unique<Measurer>());
  }

  BuiltExamples* examples() override { return kept.get(); }
  std::vector<PluginPoolStats> Plugins() override {
    MutexLock lock(mutex);
    return plugins;
  }
  void SetMostProcesses(const std::map<std::uint64_t, int>& most) override {
    MutexLock lock(mutex);
    most_processes = most;
  }
  void WatchPlugins(OnPluginRequest told_of) override { on_request = std::move(told_of); }

  std::shared_ptr<BuiltExamples> kept = std::make_shared<BuiltExamples>(std::uint64_t{1} << 30);
  Mutex mutex;
  std::vector<PluginPoolStats> plugins MILLRACE_GUARDED_BY(mutex);
  std::map<std::uint64_t, int> most_processes MILLRACE_GUARDED_BY(mutex);
  OnPluginRequest on_request;        // set before threads begin
  std::atomic<bool> opening{false};  // dataset `slow` is being opened until open_slow is set
  std::promise<void> open_slow;
  std::atomic<bool> later = false;
  std::atomic<bool> damaged = false;
  std::atomic<bool> moved_to_damage = false;
  std::atomic<int> checked = 0;
  std::atomic<bool> told = false;
  std::atomic<int> looks = 0;
  std::size_t files = 1;  // of `data`; set before it is asked for
  std::shared_ptr<FakePlan> plan = std::make_shared<FakePlan>(StepOptions{1000, 10, 0, false, 1});
};

/// A consumer's end of a stream of batches.
struct Consumer {
  std::shared_ptr<Recorder<IncomingFragment>> fragments;
  std::shared_ptr<Stream<v1::WantList>> wants;
};

/// A worker that has connected to a dispatcher which the test plays.
struct Fixture {
  InProcessNetwork network;
  std::shared_ptr<FakeClock> clock = std::make_shared<FakeClock>();
  std::shared_ptr<TestDispatcher> dispatcher = std::make_shared<TestDispatcher>();
  std::shared_ptr<FakeProvider> provider = std::make_shared<FakeProvider>();
  std::shared_ptr<WorkerService> worker;
  test::Accepted<v1::WorkRequest, v1::WorkResponse> work;
  std::string fingerprint = provider->plan->facts().fingerprint().ToString();
  std::uint64_t plays = 0;

  std::atomic<std::uint64_t> memory_used = 0;

  std::atomic<int> cpus = 1;

  explicit Fixture(bool opening = false, std::uint64_t memory_limit = 0, bool tune = false,
                   int threads = 1) {
    provider->opening = opening;
    network.AddDispatcher("d:1", dispatcher);
    WorkerOptions options;
    options.name = "w1";
    options.address = "w1:1";
    options.dispatcher = "d:1";
    options.threads = threads;
    options.memory_limit = memory_limit;
    options.max_streams = 4;
    options.tune = tune;
    options.threads_given = !tune;
    options.cpus = [this] { return cpus.load(); };
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
  /// Asks the worker, as its dispatcher, for a list of files. Returns the report that has it.
  v1::WorkRequest Ask() {
    v1::WorkResponse response;
    response.add_plans()->set_fingerprint(fingerprint);
    response.add_list_files("data");
    Say(response);
    const auto report = WaitReport([](const v1::WorkRequest& r) {
      const auto data = r.datasets().find("data");
      return data != r.datasets().end() && data->second.file_list_size() > 0;
    });
    REQUIRE(report);
    return *report;
  }
  Consumer Consume() {
    auto fragments = std::make_shared<Recorder<IncomingFragment>>();
    return {fragments, network.MakeConnector("c:1")->StreamBatches("w1:1", fragments)};
  }
  /// Reads reports until one fits, and returns it. Returns nullopt if none of 200 reports fits, or
  /// if the stream ends.
  template <class F>
  std::optional<v1::WorkRequest> WaitReport(F fits) {
    for (int i = 0; i < 200; ++i) {
      auto report = work.recorder->Next();
      if (!report || fits(*report)) return report;
    }
    return std::nullopt;
  }
  void Compile(const std::string& yaml = "good") {
    v1::WorkResponse response;
    v1::PlanSpec& spec = *response.add_plans();
    spec.set_fingerprint(fingerprint);
    spec.mutable_pipeline()->set_yaml(yaml);
    Say(response);
  }
  /// Gives the worker its plan, and waits until the plan is ready.
  void Serve() {
    Compile();
    REQUIRE(WaitReport([](const v1::WorkRequest& r) {
      return r.plans_size() == 1 && r.plans(0).phase() == v1::READY;
    }));
  }
};

/// A list that asks for the first steps of an epoch.
inline v1::WantList Wants(const std::string& fingerprint, std::uint32_t steps) {
  v1::WantList list;
  list.set_fingerprint(fingerprint);
  list.set_protocol(kProtocol);
  list.set_credit_bytes(1 << 30);
  v1::Run& run = *list.add_runs();
  run.set_stride(10);
  run.set_examples(10);
  run.set_steps(steps);
  return list;
}

/// The next fragment that is more than a sign of life.
inline std::optional<IncomingFragment> NextFragment(Recorder<IncomingFragment>& fragments) {
  std::optional<IncomingFragment> fragment = fragments.Next();
  while (fragment && fragment->message.has_alive()) fragment = fragments.Next();
  return fragment;
}

}  // namespace millrace::test
