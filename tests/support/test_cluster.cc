#include "tests/support/test_cluster.h"

#include <unistd.h>

#include <chrono>
#include <stop_token>
#include <utility>

#include "common/batch/batch.h"
#include "server/catalog/product_kinds.h"
#include "server/daemon/column_adapters.h"
#include "server/daemon/plan_adapters.h"
#include "server/kinds/coq/generator/generator.h"
#include "tests/support/memory_store.h"

namespace millrace::test {
namespace {

std::filesystem::path FolderOfThisProcess() {
  return std::filesystem::temp_directory_path() / ("millrace-cluster-" + std::to_string(getpid()));
}

void WriteProofs(const std::filesystem::path& dir) {
  GeneratorOptions options;
  options.nodes = 20'000;
  options.files = 4;
  options.proof_states = 400;
  options.definitions = 200;
  options.seed = 5;
  GeneratorReport report;
  const millrace::Status status = GenerateDataset(dir, options, &report);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.message().c_str());
}

using BuildCount = std::shared_ptr<std::atomic<std::uint64_t>>;

/// A plan whose batches take at least a known time to build, and are counted.
class WatchedPlan final : public Plan {
 public:
  WatchedPlan(std::shared_ptr<const Plan> plan, std::shared_ptr<const Clock> clock, Duration time,
              BuildCount builds)
      : plan_(std::move(plan)), clock_(std::move(clock)), time_(time), builds_(std::move(builds)) {}

  const PlanFacts& facts() const override { return plan_->facts(); }
  const std::vector<TensorSpec>& tensors() const override { return plan_->tensors(); }
  const ExpandSpec& expand() const override { return plan_->expand(); }
  const PlanCounts& counts() const override { return plan_->counts(); }
  std::shared_ptr<const std::string> static_bytes() const override { return plan_->static_bytes(); }
  const PlannedOrder& planned_order() const override { return plan_->planned_order(); }
  std::vector<ExampleId> ExamplesOf(std::uint64_t epoch, ExampleRange units) const override {
    return plan_->ExamplesOf(epoch, units);
  }
  bool Selects(ExampleId example) const override { return plan_->Selects(example); }
  ExamplePlaces PlacesOf(std::uint64_t epoch, ExampleId example) const override {
    return plan_->PlacesOf(epoch, example);
  }
  Result<std::shared_ptr<const PackedBatch>> Batch(std::uint64_t epoch, ExampleRange range,
                                                   BatchScratch& scratch) const override {
    ++*builds_;
    const Time end = clock_->Now() + time_;
    while (clock_->Now() < end) std::this_thread::sleep_for(std::chrono::microseconds(100));
    return plan_->Batch(epoch, range, scratch);
  }
  Result<std::shared_ptr<const PackedBatch>> BatchOf(std::span<const ExampleId> examples,
                                                     std::uint64_t epoch,
                                                     BatchScratch& scratch) const override {
    return plan_->BatchOf(examples, epoch, scratch);
  }
  std::unique_ptr<BatchScratch> NewScratch() const override { return plan_->NewScratch(); }

 private:
  const std::shared_ptr<const Plan> plan_;
  const std::shared_ptr<const Clock> clock_;
  const Duration time_;
  const BuildCount builds_;
};

/// Ranges take at least a known time to measure, and their examples are counted.
class WatchedMeasurer final : public RangeMeasurer {
 public:
  WatchedMeasurer(std::unique_ptr<RangeMeasurer> measurer, std::shared_ptr<const Clock> clock,
                  Duration time, BuildCount examples)
      : measurer_(std::move(measurer)),
        clock_(std::move(clock)),
        time_(time),
        examples_(std::move(examples)) {}

  Result<std::vector<v1::MeasuredColumn>> Measure(const v1::ExampleRun& run) override {
    *examples_ += run.count();
    const Time end = clock_->Now() + time_;
    while (clock_->Now() < end) std::this_thread::sleep_for(std::chrono::microseconds(100));
    return measurer_->Measure(run);
  }

 private:
  const std::unique_ptr<RangeMeasurer> measurer_;
  const std::shared_ptr<const Clock> clock_;
  const Duration time_;
  const BuildCount examples_;
};

/// Compiles plans and watches them.
class WatchingProvider final : public PlanProvider {
 public:
  struct Watch {
    Duration build_time;
    BuildCount builds;
    Duration measure_time;
    BuildCount measured;
  };
  WatchingProvider(std::shared_ptr<PlanProvider> provider, std::shared_ptr<const Clock> clock,
                   Watch watch)
      : provider_(std::move(provider)), clock_(std::move(clock)), watch_(std::move(watch)) {}

  Result<std::shared_ptr<const Plan>> CompilePlan(const v1::PipelineText& pipeline) override {
    MILLRACE_ASSIGN_OR_RETURN(std::shared_ptr<const Plan> plan, provider_->CompilePlan(pipeline));
    return std::shared_ptr<const Plan>(
        std::make_shared<WatchedPlan>(std::move(plan), clock_, watch_.build_time, watch_.builds));
  }
  bool CanCompile(const v1::PlanSpec& spec) override { return provider_->CanCompile(spec); }
  void OpenDatasets(const std::function<void()>& on_change) override {
    provider_->OpenDatasets(on_change);
  }
  std::map<std::string, v1::DatasetState> DatasetStates() override {
    return provider_->DatasetStates();
  }
  bool CheckFiles(const std::stop_token& stop) override { return provider_->CheckFiles(stop); }
  Status CheckPlan(const Plan& plan) override { return provider_->CheckPlan(plan); }
  std::vector<v1::FileEntry> ListFiles(const std::string& dataset) override {
    return provider_->ListFiles(dataset);
  }
  Result<std::unique_ptr<RangeMeasurer>> NewMeasurer(const v1::ColumnSet& set,
                                                     const v1::PipelineText& pipeline) override {
    MILLRACE_ASSIGN_OR_RETURN(auto measurer, provider_->NewMeasurer(set, pipeline));
    return std::unique_ptr<RangeMeasurer>(std::make_unique<WatchedMeasurer>(
        std::move(measurer), clock_, watch_.measure_time, watch_.measured));
  }

 private:
  const std::shared_ptr<PlanProvider> provider_;
  const std::shared_ptr<const Clock> clock_;
  const Watch watch_;
};

}  // namespace

TestDataset SomeProofs() {
  return {.kinds = ProductKinds(),
          .write = WriteProofs,
          .pipeline =
              "millrace: 1\ndataset: data\nsource: proof_states\nshuffle: {seed: 3}\n"
              "closure: {max_subgraph_size: 64}\nbatch: {size: 8, remainder: keep}\n"};
}

TestCluster::TestCluster(const TestDataset& dataset)
    : data_(dataset),
      dataset_(FolderOfThisProcess()),
      processes_(FolderOfThisProcess() += "-processes"),
      pipeline_(dataset.pipeline),
      store_(std::make_shared<MemoryStore>()) {
  dataset.write(dataset_);
  if (!data_.apart) {
    library_ = std::make_shared<PlanLibrary>(LibraryOptions({}), MakeNullLogger());
  }
  StartDispatcher();
  time_ = std::thread([this] { RunTime(); });
}

TestCluster::~TestCluster() {
  std::map<std::string, std::shared_ptr<WorkerService>> workers;
  {
    MutexLock lock(mutex_);
    workers = workers_;
  }
  // The workers are killed while the clock still runs, because slow builds need it to end.
  for (const auto& [name, worker] : workers) KillWorker(name);
  stopping_ = true;
  time_.join();
  KillDispatcher();
  std::error_code ignored;
  std::filesystem::remove_all(dataset_, ignored);
  std::filesystem::remove_all(processes_, ignored);
}

PlanLibraryOptions TestCluster::LibraryOptions(const std::string& process) const {
  PlanLibraryOptions options;
  options.kinds = data_.kinds;
  options.operations = data_.operations;
  options.datasets["data"] = {dataset_, {}, data_.kind};
  if (data_.apart) options.datasets["data"].index_file = processes_ / process / "index";
  options.index_threads = 1;
  return options;
}

std::filesystem::path TestCluster::ColumnsOf(const std::string& process) const {
  return processes_ / process / "index.columns";
}

void TestCluster::RunTime() {
  while (!stopping_) {
    clock_->Advance(std::chrono::milliseconds(20));
    std::shared_ptr<DispatcherService> dispatcher;
    std::vector<std::shared_ptr<WorkerService>> workers;
    {
      MutexLock lock(mutex_);
      dispatcher = dispatcher_;
      for (const auto& [name, worker] : workers_) workers.push_back(worker);
    }
    if (dispatcher) dispatcher->Tick();
    for (const auto& worker : workers) worker->Tick();
    // The sleep leaves the processor to the other threads. The clock runs about ten times as fast
    // as wall time.
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

void TestCluster::StartDispatcher() {
  if (data_.apart) {
    kept_columns_ = std::make_shared<KeptColumns>(MakeNullLogger());
    PlanLibraryOptions options = LibraryOptions("dispatcher");
    options.columns = kept_columns_;
    library_ = std::make_shared<PlanLibrary>(options, MakeNullLogger());
  }
  auto dispatcher = DispatcherService::Start(
      DispatcherOptions{}, store_, MakePlanCompiler(library_, !data_.apart, kept_columns_), clock_,
      MakeNullLogger());
  if (!dispatcher.ok()) return;
  if (library_->Open("data").ok()) {
    (*dispatcher)->SetDataset("data", ToProto(*library_->GetStatus("data")));
  }
  network_.AddDispatcher(kDispatcher, *dispatcher);
  MutexLock lock(mutex_);
  dispatcher_ = std::move(dispatcher).value();
}

void TestCluster::KillDispatcher() {
  network_.Kill(kDispatcher);
  std::shared_ptr<DispatcherService> dispatcher;
  {
    MutexLock lock(mutex_);
    dispatcher = std::exchange(dispatcher_, nullptr);
  }
  if (dispatcher) dispatcher->Stop();
}

void TestCluster::AddWorker(const std::string& name, std::uint64_t memory, int threads) {
  WorkerOptions options;
  options.name = name;
  options.address = name + ":1";
  options.host_id = "host";
  options.dispatcher = kDispatcher;
  options.threads = threads;
  options.memory_bytes = memory;
  const std::shared_ptr<Connector> connector = network_.MakeConnector(options.address);
  std::shared_ptr<PlanLibrary> library = library_;
  if (data_.apart) {
    PlanLibraryOptions own = LibraryOptions(name);
    own.columns =
        std::make_shared<FetchedColumns>(FetchFrom(connector, kDispatcher), MakeNullLogger());
    library = std::make_shared<PlanLibrary>(own, MakeNullLogger());
  }
  BuildCount measured;
  {
    MutexLock lock(mutex_);
    BuildCount& count = measured_[name];
    if (count == nullptr) count = std::make_shared<std::atomic<std::uint64_t>>(0);
    measured = count;
  }
  auto provider = std::make_shared<WatchingProvider>(
      MakePlanProvider(library), clock_,
      WatchingProvider::Watch{build_time_, builds_, measure_time_, measured});
  auto worker = std::make_shared<WorkerService>(options, std::move(provider), connector, clock_,
                                                MakeNullLogger());
  network_.AddWorker(options.address, worker);
  worker->Start();
  MutexLock lock(mutex_);
  workers_[name] = std::move(worker);
}

void TestCluster::StopWorker(const std::string& name) {
  std::shared_ptr<WorkerService> worker;
  {
    MutexLock lock(mutex_);
    worker = workers_.at(name);
  }
  worker->Drain();
  while (!worker->Idle()) std::this_thread::yield();
  KillWorker(name);
}

void TestCluster::KillWorker(const std::string& name) {
  network_.Kill(name + ":1");
  std::shared_ptr<WorkerService> worker;
  {
    MutexLock lock(mutex_);
    const auto found = workers_.find(name);
    if (found == workers_.end()) return;
    worker = std::move(found->second);
    workers_.erase(found);
  }
  worker->Stop();
}

void TestCluster::PauseWorker(const std::string& name, bool paused) {
  network_.SetPaused(name + ":1", paused);
}

SessionOptions TestCluster::Options(std::uint32_t rank, std::uint32_t world_size) const {
  SessionOptions options;
  options.address = kDispatcher;
  options.job = "job";
  options.pipeline = pipeline_;
  options.rank = rank;
  options.world_size = world_size;
  options.packed = true;
  options.prefetch_bytes = 1 << 20;
  return options;
}

Result<std::unique_ptr<Session>> TestCluster::Connect(const SessionOptions& options,
                                                      const std::string& who,
                                                      std::shared_ptr<Device> device) {
  SessionEnvironment environment;
  environment.device = std::move(device);
  environment.connector = network_.MakeConnector(who);
  environment.clock = clock_;
  environment.longest_sleep = std::chrono::milliseconds(1);
  MILLRACE_ASSIGN_OR_RETURN(auto session, Session::Create(options, environment));
  MILLRACE_RETURN_IF_ERROR(session->Attach());
  return session;
}

std::vector<BatchRecord> TestCluster::Reference(std::uint64_t epoch, std::uint32_t world_size,
                                                std::uint64_t from) {
  PipelineSource source;
  source.yaml = pipeline_;
  const auto plan = library_->Compile(source);
  const StepArithmetic steps = (*plan)->facts().Steps(world_size).value();
  const auto scratch = (*plan)->NewScratch();
  std::vector<BatchRecord> records;
  for (Position at{epoch, from}; at.epoch == epoch; at = steps.Next(at)) {
    for (std::uint32_t rank = 0; rank < world_size; ++rank) {
      const auto batch = (*plan)->Batch(epoch, steps.RankExamples(at, rank), *scratch);
      records.push_back({epoch, steps.Ordinal(at, rank), (*batch)->payload_hash().ToHex()});
    }
  }
  return records;
}

std::uint64_t TestCluster::MeasuredBy(const std::string& worker) {
  MutexLock lock(mutex_);
  const auto count = measured_.find(worker);
  return count == measured_.end() ? 0 : count->second->load();
}

std::uint64_t TestCluster::Measured() {
  std::uint64_t all = 0;
  MutexLock lock(mutex_);
  for (const auto& [name, count] : measured_) all += *count;
  return all;
}

Result<v1::ServiceStatus> TestCluster::Status() {
  return network_.MakeConnector("status")->GetStatus(kDispatcher, 30);
}

std::shared_ptr<Stream<v1::TraceRequest>> TestCluster::Trace(
    std::shared_ptr<StreamHandler<v1::TraceChunk>> handler) {
  auto stream = network_.MakeConnector("trace")->Trace(kDispatcher, std::move(handler));
  v1::TraceRequest request;
  request.set_seconds(600);
  stream->Write(std::move(request));
  return stream;
}

Result<std::vector<BatchRecord>> ReadAll(Session& session, std::uint64_t epochs,
                                         std::optional<std::uint64_t> steps) {
  std::vector<BatchRecord> records;
  for (std::uint64_t epoch = 0; epoch < epochs; ++epoch) {
    if (epoch > 0) {
      MILLRACE_ASSIGN_OR_RETURN(const bool more, session.NextEpoch());
      if (!more) break;
    }
    for (;;) {
      if (steps && records.size() >= *steps) return records;
      MILLRACE_ASSIGN_OR_RETURN(const std::optional<Batch> batch, session.Next());
      if (!batch) break;
      records.push_back(
          {batch->epoch(), batch->ordinal(), batch->packed()->payload_hash().ToHex()});
    }
  }
  return records;
}

}  // namespace millrace::test
