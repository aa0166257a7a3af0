#include "server/worker/service/worker_service.h"

#include <malloc.h>

#include <algorithm>
#include <utility>

#include "common/system/nonce.h"
#include "common/transport/convert/places.h"
#include "server/worker/service/cache_report.h"
#include "server/worker/service/plugin_report.h"
#include "server/worker/service/read_memory_use.h"

namespace millrace {
namespace {

/// The bytes of all lists of files in one report: half of the largest message to a dispatcher.
constexpr std::size_t kMostListedBytes = std::size_t{4} << 20;
constexpr std::size_t kBytesAroundFile = 4;

/// Adds as many as there is room for.
void AddFileList(std::vector<v1::FileEntry> files, v1::DatasetState& state, std::size_t& room) {
  for (v1::FileEntry& file : files) {
    const std::size_t bytes = file.ByteSizeLong() + kBytesAroundFile;
    if (bytes > room) return;
    room -= bytes;
    *state.add_file_list() = std::move(file);
  }
}

}  // namespace

/// Passes the events of one consumer's stream to the worker, which it keeps alive.
class WorkerService::BatchHandler final : public StreamHandler<v1::WantList> {
 public:
  BatchHandler(std::shared_ptr<WorkerService> worker, StreamId id)
      : worker_(std::move(worker)), id_(id) {}
  void OnMessage(v1::WantList wants) override { worker_->OnWants(id_, wants); }
  void OnWriteDone() override { worker_->OnMessageWritten(id_); }
  void OnClosed(const Status& status) override { worker_->OnBatchStreamClosed(id_, status); }

 private:
  const std::shared_ptr<WorkerService> worker_;
  const StreamId id_;
};

/// Passes the events of the stream to the dispatcher to the worker, if the worker is still there.
class WorkerService::WorkHandler final : public StreamHandler<v1::WorkResponse> {
 public:
  WorkHandler(std::weak_ptr<WorkerService> worker, std::uint64_t attempt)
      : worker_(std::move(worker)), attempt_(attempt) {}
  void OnMessage(v1::WorkResponse response) override {
    if (auto worker = worker_.lock()) worker->OnWorkResponse(attempt_, response);
  }
  void OnWriteDone() override {
    if (auto worker = worker_.lock()) worker->OnWorkWritten(attempt_);
  }
  void OnClosed(const Status& status) override {
    if (auto worker = worker_.lock()) worker->OnWorkClosed(attempt_, status);
  }

 private:
  const std::weak_ptr<WorkerService> worker_;
  const std::uint64_t attempt_;
};

WorkerService::WorkerService(const WorkerOptions& options, std::shared_ptr<PlanProvider> plans,
                             std::shared_ptr<Connector> connector,
                             std::shared_ptr<const Clock> clock, const std::shared_ptr<Logger>& log)
    : options_(options),
      provider_(std::move(plans)),
      connector_(std::move(connector)),
      clock_(std::move(clock)),
      log_(log),
      trace_(clock_, options.name, options.host_id),
      refusals_({"StreamBatches", "GetStatic"}),
      compressor_(std::max(1, options.cpus ? options.cpus() : options.threads)),
      random_(std::random_device()()),
      machine_(
          options, MakeNonce(),
          [this]() MILLRACE_REQUIRES(mutex_) {
            return std::uniform_real_distribution<double>()(random_);
          },
          log) {}

WorkerService::~WorkerService() { Stop(); }

void WorkerService::Start() {
  provider_->WatchPlugins(
      [weak = weak_from_this()](std::string_view object, Time began, Time ended) {
        if (const auto worker = weak.lock()) worker->RecordRequest(object, began, ended);
      });
  threads_.emplace_back([this] { OpenDatasets(); });
  threads_.emplace_back([this] { PrepareLoop(); });
  threads_.emplace_back([this] { WatchLoop(); });
  MutexLock lock(mutex_);
  StartBuilders();
  memory_looked_at_ = clock_->Now();
  machine_.Start(memory_looked_at_);
  Perform();
}

void WorkerService::Stop() {
  std::map<StreamId, Outlet> outlets;  // destroyed outside the lock
  std::shared_ptr<Stream<v1::WorkRequest>> work;
  std::vector<std::thread> builders;
  {
    MutexLock lock(mutex_);
    if (stopping_) return;
    machine_.Stop(clock_->Now());
    Perform();
    stopping_ = true;
    work = std::move(work_);
    outlets = std::move(outlets_);
    outlets_.clear();
    builders = std::move(builders_);
  }
  work_available_.NotifyAll();
  prepare_available_.NotifyAll();
  look_due_changed_.NotifyAll();
  stop_looking_.request_stop();
  compressor_.Stop();
  for (std::thread& thread : builders) thread.join();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
  for (auto& [id, outlet] : outlets) outlet.out->Close(Unavailable("the worker stops"));
  outlets.clear();
  if (work) work->Close(OkStatus());
  work.reset();
  connector_->WaitForStreams(Connector::kStreamsEndSeconds);
}

void WorkerService::Drain() {
  MutexLock lock(mutex_);
  if (stopping_) return;
  machine_.Drain(clock_->Now());
  Perform();
}

bool WorkerService::Idle() {
  MutexLock lock(mutex_);
  return machine_.Idle();
}

bool WorkerService::LooksAtMemory(Time now) {
  MutexLock lock(mutex_);
  if (stopping_ || now - memory_looked_at_ < WorkerMachine::kLookPeriod) return false;
  memory_looked_at_ = now;
  return true;
}

void WorkerService::Tick() {
  std::optional<std::uint64_t> cache_limit;
  std::map<std::uint64_t, int> most_processes;
  const Time now = clock_->Now();
  std::optional<std::vector<PluginPoolStats>> plugins;
  int cpus = 0;
  if (LooksAtMemory(now)) {
    plugins = provider_->Plugins();
    cpus = options_.cpus ? options_.cpus() : 0;
  }
  {
    MutexLock lock(mutex_);
    if (stopping_) return;
    if (cpus > 0) machine_.OnCpus(cpus);
    if (plugins) {
      plugins_ = *std::move(plugins);
      cache_limit = WatchMemory();
    }
    machine_.Tick(now);
    Perform();
    StartBuilders();
    if (plugins) most_processes = machine_.MostProcesses();
  }
  if (cache_limit) SetCacheLimit(*cache_limit);
  if (!most_processes.empty()) provider_->SetMostProcesses(most_processes);
}

// --- Actions of the machine ----------------------------------------------------------------------

void WorkerService::Perform() {
  // An action may bring events, from which other actions follow.
  for (auto actions = machine_.TakeActions(); !actions.empty(); actions = machine_.TakeActions()) {
    for (WorkerAction::Any& action : actions) PerformOne(std::move(action));
  }
}

void WorkerService::PerformOne(WorkerAction::Any action) {
  if (auto* batch = std::get_if<WorkerAction::SendBatch>(&action)) {
    Outlet& outlet = outlets_.at(batch->stream);
    if (trace_.tracer().on()) BeginSend(batch->stream, outlet, batch->batch);
    outlet.out->Send(std::move(batch->batch), batch->compression);
  } else if (auto* control = std::get_if<WorkerAction::SendControl>(&action)) {
    SendControl(std::move(*control));
  } else if (const auto* close = std::get_if<WorkerAction::CloseStream>(&action)) {
    refusals_.Count("StreamBatches", close->why);
    outlets_.at(close->stream).out->Close(close->why);  // OnBatchStreamClosed erases the outlet
  } else if (const auto* open = std::get_if<WorkerAction::OpenWork>(&action)) {
    attempt_ = open->attempt;
    work_ =
        connector_->Work(open->address, std::make_shared<WorkHandler>(weak_from_this(), attempt_));
  } else if (auto* report = std::get_if<WorkerAction::SendWork>(&action)) {
    SendWork(std::move(*report));
  } else if (const auto* bad = std::get_if<WorkerAction::CloseWork>(&action)) {
    if (work_ && bad->attempt == attempt_) work_->Close(bad->why);
  } else if (auto* compile = std::get_if<WorkerAction::CompilePlan>(&action)) {
    to_compile_.push_back(std::move(compile->spec));
    prepare_available_.NotifyAll();
  } else if (std::holds_alternative<WorkerAction::SnapshotFiles>(action)) {
    look_due_ = true;
    look_due_changed_.NotifyAll();
  } else {
    work_available_.NotifyAll();
  }
}

void WorkerService::SendWork(WorkerAction::SendWork action) {
  if (!work_ || action.attempt != attempt_) return;
  std::size_t room = kMostListedBytes;
  for (auto& [dataset, state] : provider_->DatasetStates()) {
    const auto& wanted = action.list_files;
    if (std::find(wanted.begin(), wanted.end(), dataset) != wanted.end()) {
      AddFileList(provider_->ListFiles(dataset), state, room);
    }
    (*action.report.mutable_datasets())[dataset] = std::move(state);
  }
  if (const BuiltExamples* const examples = provider_->examples()) {
    ToProto(examples->stats(), *action.report.mutable_cache());
  }
  ToProto(plugins_, action.report);
  if (options_.security) *action.report.mutable_security() = options_.security();
  trace_.AddTo(action.report, machine_.id().number());
  work_->Write(std::move(action.report));
}

void WorkerService::SendControl(WorkerAction::SendControl action) {
  for (std::size_t i = 0; i < action.builds.size(); ++i) {
    v1::Building& building = *action.message.mutable_alive()->mutable_building(static_cast<int>(i));
    building.set_stage(FindStage(action.builds[i]));
  }
  outlets_.at(action.stream).out->WriteControl(std::move(action.message));
}

std::string WorkerService::FindStage(std::uint64_t build) {
  for (const auto& [scratch, building] : building_) {
    if (building.task.build == build) return scratch->stage();
  }
  return {};
}

MemoryUse WorkerService::UseOfMemory() {
  MemoryUse use = options_.memory_use ? options_.memory_use() : ReadMemoryUse();
  use.plugins = MemoryOf(plugins_);
  return use;
}

std::optional<std::uint64_t> WorkerService::WatchMemory() {
  if (options_.memory_limit == 0) {
    machine_.OnPools(UseOfPools(plugins_), std::nullopt);
    return std::nullopt;
  }
  MemoryUse use = UseOfMemory();
  const std::uint64_t built = machine_.queue().built_bytes() + machine_.queue().kept_bytes();
  std::optional<std::uint64_t> cache_limit;
  const BuiltExamples* const examples = provider_->examples();
  if (examples != nullptr) {
    use.anonymous -= std::min(use.anonymous, examples->stats().cache.memory.bytes);
  }
  machine_.OnPools(UseOfPools(plugins_),
                   PluginRoom(options_.memory_bytes, options_.memory_limit, use, built));
  const std::uint64_t budget =
      WorkAheadBudget(options_.memory_bytes, options_.memory_limit, use, built);
  if (examples != nullptr) {
    cache_limit =
        CacheBudget(examples->configured_memory(), options_.memory_limit, use, built, budget);
  }
  SetWorkAhead(budget, use);
  return cache_limit;
}

void WorkerService::SetCacheLimit(std::uint64_t bytes) {
  BuiltExamples& examples = *provider_->examples();
  const MemoryCacheStats before = examples.stats().cache.memory;
  if (bytes == before.limit_bytes) return;
  examples.SetMemoryLimit(bytes);
  if (bytes < before.bytes) malloc_trim(0);
}

void WorkerService::SetWorkAhead(std::uint64_t budget, const MemoryUse& use) {
  if (budget == machine_.queue().memory_budget()) return;
  if (machine_.SetMemoryBudget(budget)) {
    // Without this, the plans and malloc would keep the memory of forgotten batches for later ones.
    for (const auto& [fingerprint, entry] : machine_.plans()) {
      if (entry.plan) entry.plan->TrimMemory();
    }
    malloc_trim(0);
  }
  // The warning comes once each time that memory becomes short, not at every change after that.
  const bool is_short = budget < options_.memory_bytes / 2;
  if (is_short && !short_of_memory_) {
    log_->Warning(
        use.plugins > use.anonymous
            ? "short of memory because of plugins: fewer batches are built ahead; raise "
              "memory_limit, or lower the plugins' processes"
            : "short of memory: fewer batches are built ahead; raise memory_limit, or lower "
              "threads",
        {{"memory_limit", options_.memory_limit},
         {"anonymous", use.anonymous},
         {"shared", use.shared},
         {"plugins", use.plugins},
         {"ahead", budget}});
  }
  if (is_short || budget == options_.memory_bytes) short_of_memory_ = is_short;
}

void WorkerService::AddMetrics(MetricSet& metrics) {
  refusals_.AddTo(metrics);
  AddPluginMetrics(provider_->Plugins(), metrics);
  MutexLock lock(mutex_);
  // The stages of the usual plans are shown before there is a plan. The others follow from
  // pipelines and from sources: a source names the stage in which it is read
  // (SourceFacts::reading_stage).
  for (const char* const stage : {"shuffle", "closure", "batch"}) {
    metrics.Set(Metric::kBatchBuildSeconds, {stage}, {});
  }
  for (const auto& [stage, total] : machine_.build_seconds()) {
    metrics.Set(Metric::kBatchBuildSeconds, {stage}, total.batches);
  }
  metrics.Add(Metric::kSharedBatches, {}, static_cast<double>(machine_.shared_batches()));
  if (const BuiltExamples* const examples = provider_->examples()) {
    AddCacheMetrics(examples->stats(), metrics);
  }
  metrics.Add(Metric::kCompressSeconds, {}, compressor_.seconds());
  metrics.Add(Metric::kColumnExamples, {},
              static_cast<double>(machine_.measuring().measured_examples()));
  const MemoryUse use = UseOfMemory();
  metrics.Add(Metric::kMemory, {}, static_cast<double>(use.anonymous + use.shared + use.plugins));
  if (options_.memory_limit != 0) {
    metrics.Add(Metric::kMemoryLimit, {}, static_cast<double>(options_.memory_limit));
  }
  metrics.Add(Metric::kSendBlockedSeconds, {}, machine_.SendBlockedSeconds(clock_->Now()));
}

bool WorkerService::Ready() {
  MutexLock lock(mutex_);
  return machine_.Ready() && !stopping_;
}

// --- Events from the network ---------------------------------------------------------------------

std::shared_ptr<StreamHandler<v1::WantList>> WorkerService::OnStreamBatches(
    std::shared_ptr<Stream<OutgoingFragment>> stream, const Peer& peer) {
  MutexLock lock(mutex_);
  if (stopping_) return nullptr;
  const StreamId id = next_stream_++;
  if (const Status full = machine_.OnStreamOpened(id, peer); !full.ok()) {
    refusals_.Count("StreamBatches", full);
    stream->Close(full);
    return nullptr;
  }
  outlets_[id].out = std::make_unique<BatchStream>(
      std::move(stream), [this, id](Compression compression, std::span<const std::byte> bytes,
                                    std::shared_ptr<const void> owner) {
        // Stop waits for it, so that the worker is still there.
        const auto done = [this, id](CompressedFragment fragment) {
          OnCompressed(id, std::move(fragment));
        };
        compressor_.Add({compression, bytes, std::move(owner), done});
      });
  return std::make_shared<BatchHandler>(shared_from_this(), id);
}

void WorkerService::OnWants(StreamId id, const v1::WantList& wants) {
  MutexLock lock(mutex_);
  if (!outlets_.contains(id)) return;
  machine_.OnWants(id, wants, clock_->Now());
  Perform();
}

void WorkerService::OnMessageWritten(StreamId id) {
  MutexLock lock(mutex_);
  const auto found = outlets_.find(id);
  if (found == outlets_.end()) return;
  BatchStream& out = *found->second.out;
  if (out.sending()) return out.WriteNext();
  if (trace_.tracer().on()) EndSend(found->second);
  machine_.OnSent(id, clock_->Now());
  Perform();
}

void WorkerService::OnCompressed(StreamId id, CompressedFragment fragment) {
  MutexLock lock(mutex_);
  const auto found = outlets_.find(id);
  if (found != outlets_.end()) found->second.out->OnCompressed(std::move(fragment));
}

void WorkerService::OnBatchStreamClosed(StreamId id, const Status& status) {
  Outlet gone;  // destroyed outside the lock
  MutexLock lock(mutex_);
  const auto found = outlets_.find(id);
  if (found == outlets_.end()) return;
  gone = std::move(found->second);
  outlets_.erase(found);
  machine_.OnStreamClosed(id, status, clock_->Now());
  Perform();
  lock.Unlock();
}

void WorkerService::OnWorkResponse(std::uint64_t attempt, const v1::WorkResponse& response) {
  MutexLock lock(mutex_);
  if (stopping_ || attempt != attempt_) return;
  const Time now = clock_->Now();
  machine_.OnWorkResponse(attempt, response, now);
  if (trace_.Obey(response)) machine_.ReportSoon(now);
  Perform();
}

void WorkerService::OnWorkWritten(std::uint64_t attempt) {
  MutexLock lock(mutex_);
  if (stopping_) return;
  machine_.OnWorkWritten(attempt, clock_->Now());
  Perform();
}

void WorkerService::OnWorkClosed(std::uint64_t attempt, const Status& status) {
  std::shared_ptr<Stream<v1::WorkRequest>> gone;  // destroyed outside the lock
  MutexLock lock(mutex_);
  if (stopping_ || attempt != attempt_) return;
  gone = std::move(work_);
  machine_.OnWorkClosed(attempt, status, clock_->Now());
  Perform();
  lock.Unlock();
}

Result<StaticBytes> WorkerService::OnGetStatic(const std::string& fingerprint, const Peer& peer) {
  std::shared_ptr<const Plan> plan;
  {
    MutexLock lock(mutex_);
    const WorkerMachine::KeptPlan* entry = machine_.FindReady(fingerprint);
    if (entry == nullptr) {
      const Status unknown =
          NotFound("plan " + fingerprint + " is not ready at worker " + options_.name);
      refusals_.Count("GetStatic", unknown);
      return unknown;
    }
    if (const Status denied = machine_.CheckDatasets(fingerprint, peer.identity); !denied.ok()) {
      refusals_.Count("GetStatic", denied);
      return denied;
    }
    plan = entry->plan;
  }
  // The plan makes the bytes now, which may take long. So this is outside the lock.
  return StaticBytes{plan->facts().static_digest(), plan->static_bytes()};
}

}  // namespace millrace
