// Runs a worker's state machine (worker_machine.h): it has the streams, the clock, and the threads
// that open datasets, compile plans and build batches.
//
// One mutex guards the machine. The thread that brings an event also performs the actions that
// follow from it.
//
// The service has threads that build, as many as may build at once, one that opens datasets, one
// that compiles plans, one that checks the files in use, and, if consumers ask for compression, the
// threads of FragmentCompressor. The network calls from threads of its own. The owner calls Tick()
// about 20 times a second. Thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "common/base/log.h"
#include "common/base/metrics.h"
#include "common/system/clock.h"
#include "common/system/mutex.h"
#include "common/system/refusal_counter.h"
#include "common/transport/stream.h"
#include "common/transport/trace_peer.h"
#include "server/plan/cache/built_examples.h"
#include "server/plan/plan.h"
#include "server/plugin/plugin_stats.h"
#include "server/worker/machine/worker_machine.h"
#include "server/worker/service/batch_stream.h"
#include "server/worker/service/builder_scratch.h"
#include "server/worker/service/fragment_compressor.h"
#include "server/worker/service/slice_builder.h"

namespace millrace {

/// Measures the examples of one source, some at a time. Not thread-safe.
class RangeMeasurer {
 public:
  virtual ~RangeMeasurer() = default;
  /// The values of each column of its set. DataLoss that names the file if data are damaged.
  virtual Result<std::vector<v1::MeasuredColumn>> Measure(const v1::ExampleRun& run) = 0;
};

/// Gives a worker its plans and datasets. Thread-safe.
class PlanProvider {
 public:
  virtual ~PlanProvider() = default;
  /// Compiles a plan. Blocks while it opens or indexes the dataset, and while it compiles.
  virtual Result<std::shared_ptr<const Plan>> CompilePlan(const v1::PipelineText& pipeline) = 0;
  /// The first missing columns because of which a pipeline does not compile; nullopt if that is not
  /// why. Blocks as CompilePlan does.
  virtual std::optional<v1::ColumnSet> MissingColumns(const v1::PipelineText& /*pipeline*/) {
    return std::nullopt;
  }
  /// Whether CompilePlan can begin now, because the plan's dataset is not being opened. Cheap.
  virtual bool CanCompile(const v1::PlanSpec& spec) = 0;
  /// Opens every dataset, and builds missing or stale indexes. Calls `on_change` from any thread
  /// when a dataset is open or cannot be opened. Blocks until all are done. Errors are part of
  /// DatasetStates.
  virtual void OpenDatasets(const std::function<void()>& on_change) = 0;
  virtual std::map<std::string, v1::DatasetState> DatasetStates() = 0;
  /// Checks the files in use. Returns true if files were damaged since the last call: plans that
  /// need them do not compile any more. May read whole files; `stop` ends that early.
  virtual bool CheckFiles(const std::stop_token& stop) = 0;
  /// DataLoss if data that a plan was compiled over are damaged. They may be elsewhere than its
  /// datasets by now. Cheap.
  virtual Status CheckPlan(const Plan& plan) = 0;
  /// Returns names, sizes and digests of a dataset's files.
  virtual std::vector<v1::FileEntry> ListFiles(const std::string& dataset) = 0;
  /// The examples that plans keep; nullptr: no cache.
  virtual BuiltExamples* examples() { return nullptr; }
  /// The work and the memory of the processes of plugins. It may take some milliseconds.
  virtual std::vector<PluginPoolStats> Plugins() { return {}; }
  /// PluginRegistry::SetMostProcesses. It may take some milliseconds.
  virtual void SetMostProcesses(const std::map<std::uint64_t, int>& /*processes*/) {}
  /// Calls `on_request` for each request to such a process from now on; null: no longer.
  virtual void WatchPlugins(OnPluginRequest /*on_request*/) {}
  /// Makes a measurer of columns of a pipeline's source. FailedPrecondition if this host's dataset
  /// or program has no such source; Unavailable if it may have it later.
  virtual Result<std::unique_ptr<RangeMeasurer>> NewMeasurer(const v1::ColumnSet& set,
                                                             const v1::PipelineText& pipeline) = 0;
};

class WorkerService final : public WorkerEndpoint,
                            public std::enable_shared_from_this<WorkerService> {
 public:
  WorkerService(const WorkerOptions& options, std::shared_ptr<PlanProvider> plans,
                std::shared_ptr<Connector> connector, std::shared_ptr<const Clock> clock,
                const std::shared_ptr<Logger>& log);
  ~WorkerService() override;

  /// Starts the threads and connects to the dispatcher.
  void Start();
  /// Lets the machine send heartbeats, connect again and report, and checks the memory in use.
  void Tick();
  /// Asks consumers to go elsewhere, because the process is about to end. This cannot be undone.
  void Drain();
  /// Whether a drain is over (WorkerMachine::Idle).
  bool Idle();
  /// Notes that datasets were added, moved or removed: plans that failed are compiled again.
  void DatasetsChanged();
  /// Adds the values of a worker's metrics.
  void AddMetrics(MetricSet& metrics);
  /// Whether a dispatcher knows the worker and the worker does not drain or stop.
  bool Ready();
  /// Says goodbye to the dispatcher, ends all streams and joins the threads. Also waits until a
  /// dataset that is being opened is open; the owner of the datasets should end that before.
  /// Idempotent.
  void Stop();

  std::shared_ptr<StreamHandler<v1::WantList>> OnStreamBatches(
      std::shared_ptr<Stream<OutgoingFragment>> stream, const Peer& peer) override;
  Result<StaticBytes> OnGetStatic(const std::string& fingerprint, const Peer& peer) override;

 private:
  using StreamId = WorkerMachine::StreamId;
  using StageTimes = std::vector<BatchScratch::StageTime>;
  /// A batch to be built.
  struct Build {
    BuildQueue::Task task;
    std::shared_ptr<const Plan> plan;
  };
  struct Building {
    BuildQueue::Task task;
    std::uint32_t lane;  // of the thread
  };
  /// The batch, or why it could not be built.
  struct BuildOutcome {
    BuildQueue::Task task;
    Result<std::shared_ptr<const BuiltBatch>> built;
    Time began;
    Time ended;
    StageTimes before;  // the scratch's totals before the build
    StageTimes after;   // the scratch's totals after the build
  };
  /// The measurer of a builder thread, for one set of columns.
  struct ThreadMeasurer {
    std::string set;  // its bytes
    std::unique_ptr<RangeMeasurer> measurer;
  };
  /// A slice of a batch that another thread began.
  struct Help {
    SliceTask slice;
    std::shared_ptr<SliceBuilder> builder;
  };
  /// The next work of a builder thread.
  using Work = std::variant<Build, Help, MeasureJob>;
  class BatchHandler;
  class WorkHandler;

  /// The sending side of a consumer's stream.
  struct Outlet {
    std::unique_ptr<BatchStream> out;
    Span sending;  // the span of the batch that is being sent, if a trace is taken
  };

  /// Performs in order the actions that the machine asks for.
  void Perform() MILLRACE_REQUIRES(mutex_);
  void PerformOne(WorkerAction::Any action) MILLRACE_REQUIRES(mutex_);
  void SendWork(WorkerAction::SendWork action) MILLRACE_REQUIRES(mutex_);
  void SendControl(WorkerAction::SendControl action) MILLRACE_REQUIRES(mutex_);
  /// The current stage of the build of this number. Empty if unknown.
  std::string FindStage(std::uint64_t build) MILLRACE_REQUIRES(mutex_);

  void OnWants(StreamId id, const v1::WantList& wants);
  void OnMessageWritten(StreamId id);
  void OnCompressed(StreamId id, CompressedFragment fragment);
  void OnBatchStreamClosed(StreamId id, const Status& status);
  void OnWorkResponse(std::uint64_t attempt, const v1::WorkResponse& response);
  void OnWorkWritten(std::uint64_t attempt);
  void OnWorkClosed(std::uint64_t attempt, const Status& status);

  /// The memory of the process, and of its plugins at their last check.
  MemoryUse UseOfMemory() MILLRACE_REQUIRES(mutex_);
  /// Changes the memory budget of built batches so that the process stays within its limit. Returns
  /// the new limit of the cache of examples; nullopt: it stays.
  std::optional<std::uint64_t> WatchMemory() MILLRACE_REQUIRES(mutex_);
  void SetWorkAhead(std::uint64_t budget, const MemoryUse& use) MILLRACE_REQUIRES(mutex_);
  /// Whether it is time to check the memory in use.
  bool LooksAtMemory(Time now) MILLRACE_EXCLUDES(mutex_);
  /// May take long, because examples beyond the limit are freed. REQUIRES: there is a cache.
  void SetCacheLimit(std::uint64_t bytes) MILLRACE_EXCLUDES(mutex_);
  // worker_threads.cc
  /// Starts the builder threads that may build and are not there yet.
  void StartBuilders() MILLRACE_REQUIRES(mutex_);
  /// `number`: of the thread, from 0.
  void BuildLoop(int number, BuilderScratch& scratch) MILLRACE_EXCLUDES(mutex_);
  /// Waits for the next batch whose plan is ready, or for examples to measure if there is no batch
  /// to build. Forgets scratch of plans that are gone, and `measurer` if there is nothing to
  /// measure. nullopt if the service stops.
  std::optional<Work> TakeWork(int number, BuilderScratch& scratch, ThreadMeasurer& measurer)
      MILLRACE_EXCLUDES(mutex_);
  std::optional<Build> TakeBuild(BuilderScratch& scratch) MILLRACE_REQUIRES(mutex_);
  void ForgetPlans(BuilderScratch& scratch) MILLRACE_REQUIRES(mutex_);
  void Measure(const MeasureJob& job, ThreadMeasurer& measurer) MILLRACE_EXCLUDES(mutex_);
  BuildOutcome BuildOne(const Build& build, BuilderScratch& scratch) const
      MILLRACE_EXCLUDES(mutex_);
  void OnBuilt(BuildOutcome outcome, const BuilderScratch& scratch) MILLRACE_EXCLUDES(mutex_);
  void TellBuilt(const BuildQueue::Task& task, Result<std::shared_ptr<const BuiltBatch>> built,
                 const SliceBuilder::Took& took, Time now) MILLRACE_REQUIRES(mutex_);
  void OpenDatasets();
  void PrepareLoop();
  void WatchLoop() MILLRACE_EXCLUDES(mutex_);
  /// Waits until the machine wants the files checked. Returns false when the service stops.
  bool WaitForCheck() MILLRACE_EXCLUDES(mutex_);
  std::map<std::string, std::shared_ptr<const Plan>> ReadyPlans() MILLRACE_EXCLUDES(mutex_);
  /// Tells the machine which ready plans cannot be served any more, because data that they were
  /// compiled over are damaged.
  void CheckPlans() MILLRACE_EXCLUDES(mutex_);

  // worker_slices.cc: batches that several threads build together
  /// Builds slices of a batch until no slice is left for this thread, and joins the batch if it
  /// ends the last one.
  void BuildInSlices(const Build& build, BuilderScratch& scratch) MILLRACE_EXCLUDES(mutex_);
  /// Lets other threads build slices of it too. null: it cannot be begun, or is not worth slices
  /// and was built; the machine was notified.
  std::shared_ptr<SliceBuilder> BeginSlices(const Build& build, BuilderScratch& scratch)
      MILLRACE_EXCLUDES(mutex_);
  /// The next slice for the thread that began `own`; nullopt if it is done, or the service stops.
  std::optional<Help> NextSlice(const BuildQueue::Task& own, const BuilderScratch& scratch)
      MILLRACE_EXCLUDES(mutex_);
  /// `before_builds`: as WorkerMachine::NextHelp.
  std::optional<Help> TakeHelp(bool before_builds, BuilderScratch& scratch)
      MILLRACE_REQUIRES(mutex_);
  Help BeginSlice(const SliceTask& slice, const BuilderScratch& scratch) MILLRACE_REQUIRES(mutex_);
  void HelpWith(const Help& help, BuilderScratch& scratch) MILLRACE_EXCLUDES(mutex_);
  /// Builds a slice, and joins the batch if it was the last one.
  void BuildSlice(const Help& help, BuilderScratch& scratch) MILLRACE_EXCLUDES(mutex_);
  void JoinSlices(SliceBuilder& builder, BuilderScratch& scratch) MILLRACE_EXCLUDES(mutex_);
  /// Has the thread do a part of a batch, and counts and records its time. Returns the result, and
  /// seconds.
  template <class F>
  auto Timed(SliceBuilder& builder, BuilderScratch& scratch, F work) MILLRACE_EXCLUDES(mutex_);
  /// The thread has ended its work on a batch that is built in slices.
  void Leave(const BuilderScratch& scratch) MILLRACE_EXCLUDES(mutex_);

  // worker_trace.cc: spans for a trace. Callers check first that a trace is taken, which costs one
  // atomic load.
  void RecordBuild(const BuildQueue::Task& task, Time began, Time ended, const StageTimes& before,
                   const StageTimes& after) MILLRACE_REQUIRES(mutex_);
  void BeginSend(StreamId id, Outlet& outlet, const BuildQueue::Outgoing& outgoing)
      MILLRACE_REQUIRES(mutex_);
  void EndSend(Outlet& outlet) MILLRACE_REQUIRES(mutex_);
  /// Records that the calling thread has asked a process of a plugin for examples of its batch.
  void RecordRequest(std::string_view object, Time began, Time ended) MILLRACE_EXCLUDES(mutex_);

  const WorkerOptions options_;
  const std::shared_ptr<PlanProvider> provider_;
  const std::shared_ptr<Connector> connector_;
  const std::shared_ptr<const Clock> clock_;
  const std::shared_ptr<Logger> log_;
  TracePeer trace_;
  RefusalCounter refusals_;
  FragmentCompressor compressor_;

  Mutex mutex_;
  CondVar work_available_;
  CondVar prepare_available_;
  CondVar look_due_changed_;
  std::minstd_rand random_ MILLRACE_GUARDED_BY(mutex_);
  WorkerMachine machine_ MILLRACE_GUARDED_BY(mutex_);
  bool stopping_ MILLRACE_GUARDED_BY(mutex_) = false;
  StreamId next_stream_ MILLRACE_GUARDED_BY(mutex_) = 1;
  std::map<StreamId, Outlet> outlets_ MILLRACE_GUARDED_BY(mutex_);
  /// The present work of each builder thread, by the thread's scratch.
  std::map<const BuilderScratch*, Building> building_ MILLRACE_GUARDED_BY(mutex_);
  /// The batches that are built in slices, by BuildTask::build.
  std::map<std::uint64_t, std::shared_ptr<SliceBuilder>> slices_ MILLRACE_GUARDED_BY(mutex_);
  /// Processes of plugins at their last check.
  std::vector<PluginPoolStats> plugins_ MILLRACE_GUARDED_BY(mutex_);
  std::shared_ptr<Stream<v1::WorkRequest>> work_ MILLRACE_GUARDED_BY(mutex_);
  std::uint64_t attempt_ MILLRACE_GUARDED_BY(mutex_) = 0;  // number of the attempt that made work_
  std::deque<v1::PlanSpec> to_compile_ MILLRACE_GUARDED_BY(mutex_);
  bool look_due_ MILLRACE_GUARDED_BY(mutex_) = false;  // the files are to be checked
  std::stop_source stop_looking_;
  Time memory_looked_at_ MILLRACE_GUARDED_BY(mutex_);
  bool short_of_memory_ MILLRACE_GUARDED_BY(mutex_) = false;

  /// The scratch of each builder thread, as long as it runs.
  std::deque<BuilderScratch> scratch_ MILLRACE_GUARDED_BY(mutex_);
  std::vector<std::thread> builders_ MILLRACE_GUARDED_BY(mutex_);
  std::vector<std::thread> threads_;  // the others
};

}  // namespace millrace
