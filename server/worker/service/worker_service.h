// Runs a worker's state machine (worker_machine.h): its streams, its clock, and the threads that
// open datasets, compile plans and build batches.
//
// One mutex guards the machine. Whoever brings an event performs what follows from it.
//
// Threads: `threads` builders, one that opens datasets, one that compiles plans, one that looks at
// the files in use, and whatever the network calls from. Time comes from outside: call Tick() a few
// times a second. Thread-safe.
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
#include <vector>

#include "common/base/log.h"
#include "common/base/metrics.h"
#include "common/system/clock.h"
#include "common/system/mutex.h"
#include "common/system/refusal_counter.h"
#include "common/transport/stream.h"
#include "common/transport/trace_peer.h"
#include "server/pipeline/plan.h"
#include "server/worker/machine/worker_machine.h"
#include "server/worker/service/batch_stream.h"
#include "server/worker/service/builder_scratch.h"

namespace millrace {

/// Where a worker's plans and datasets come from. Thread-safe.
class PlanProvider {
 public:
  virtual ~PlanProvider() = default;
  /// Blocks while it opens or indexes the dataset and compiles.
  virtual Result<std::shared_ptr<const Plan>> CompilePlan(const v1::PipelineText& pipeline) = 0;
  /// Whether CompilePlan can begin: its dataset is not being opened at the moment. Cheap.
  virtual bool CanCompile(const v1::PlanSpec& spec) = 0;
  /// Opens (where missing or stale, indexes) every dataset, and calls `on_change`, from any thread,
  /// when one is open or cannot be. Blocks; errors are part of the states.
  virtual void OpenDatasets(const std::function<void()>& on_change) = 0;
  virtual std::map<std::string, v1::DatasetState> DatasetStates() = 0;
  /// Looks at the files in use. True where some have become damaged since the last call: plans that
  /// need them do not compile any more. May read whole files; `stop` ends that.
  virtual bool CheckFiles(const std::stop_token& stop) = 0;
  /// Names, sizes and digests of a dataset's files.
  virtual std::vector<v1::FileEntry> ListFiles(const std::string& dataset) = 0;
};

class WorkerService final : public WorkerEndpoint,
                            public std::enable_shared_from_this<WorkerService> {
 public:
  WorkerService(const WorkerOptions& options, std::shared_ptr<PlanProvider> plans,
                std::shared_ptr<Connector> connector, std::shared_ptr<const Clock> clock,
                const std::shared_ptr<Logger>& log);
  ~WorkerService() override;

  /// Starts the threads and goes to the dispatcher.
  void Start();
  /// Pulses, retries, and the once-a-second report.
  void Tick();
  /// Takes no new leases and asks consumers to go elsewhere.
  void Drain();
  /// Whether nobody waits for a batch of this worker.
  bool Idle();
  /// Datasets have come, moved or gone: plans that failed are tried again.
  void DatasetsChanged();
  /// The metrics of a worker, filled in.
  void AddMetrics(MetricSet& metrics);
  /// Whether a dispatcher knows it and it does not drain.
  bool Ready();
  /// Says goodbye, ends all streams and joins the threads; a dataset that is being opened is waited
  /// for, so that its owner should end that before. Idempotent.
  void Stop();

  std::shared_ptr<StreamHandler<v1::WantList>> OnStreamBatches(
      std::shared_ptr<Stream<OutgoingPart>> stream, const std::string& peer) override;
  Result<StaticBytes> OnGetStatic(const std::string& fingerprint) override;

 private:
  using StreamId = WorkerMachine::StreamId;
  using StageTimes = std::vector<BatchScratch::StageTime>;
  /// A batch to be built, and what became of it.
  struct Build {
    BuildQueue::Task task;
    std::shared_ptr<const Plan> plan;
  };
  struct BuildOutcome {
    BuildQueue::Task task;
    Result<std::shared_ptr<const BuiltBatch>> built;
    Time began;
    Time ended;
    StageTimes before;  // of the scratch
    StageTimes after;
  };
  class BatchHandler;
  class WorkHandler;

  /// A consumer's stream: how its batches go out.
  struct Outlet {
    std::unique_ptr<BatchStream> out;
    Span sending;  // of the batch that is half-way out, while a trace is taken
  };

  /// Performs what the machine wants, in order.
  void Perform() MILLRACE_REQUIRES(mutex_);
  void PerformOne(WorkerAction::Any action) MILLRACE_REQUIRES(mutex_);
  void SendWork(WorkerAction::SendWork action) MILLRACE_REQUIRES(mutex_);
  void SendPart(WorkerAction::SendPart action) MILLRACE_REQUIRES(mutex_);
  /// The stage at which the batch of this place is that is built for a stream. Empty if unknown.
  std::string FindStage(StreamId stream, Position at) MILLRACE_REQUIRES(mutex_);

  void OnWants(StreamId id, const v1::WantList& wants);
  void OnPartWritten(StreamId id);
  void OnBatchStreamClosed(StreamId id, const Status& status);
  void OnWorkResponse(std::uint64_t attempt, const v1::WorkResponse& response);
  void OnWorkWritten(std::uint64_t attempt);
  void OnWorkClosed(std::uint64_t attempt, const Status& status);

  /// Keeps the process within its memory limit.
  void WatchMemory() MILLRACE_REQUIRES(mutex_);
  // worker_threads.cc
  void BuildLoop(BuilderScratch& scratch) MILLRACE_EXCLUDES(mutex_);
  /// Waits for the next task whose plan is ready, and forgets scratch of plans that are gone.
  /// Nothing where the service stops.
  std::optional<Build> TakeBuild(BuilderScratch& scratch) MILLRACE_EXCLUDES(mutex_);
  BuildOutcome BuildOne(const Build& build, BuilderScratch& scratch) const
      MILLRACE_EXCLUDES(mutex_);
  void OnBuilt(BuildOutcome outcome, const BuilderScratch& scratch) MILLRACE_EXCLUDES(mutex_);
  void OpenDatasets();
  void PrepareLoop();
  void WatchLoop() MILLRACE_EXCLUDES(mutex_);
  /// False where the service stops.
  bool WaitForLook() MILLRACE_EXCLUDES(mutex_);
  std::map<std::string, v1::PipelineText> ReadyPlans() MILLRACE_EXCLUDES(mutex_);
  /// Compiles the ready plans again: those whose files are damaged cannot be served any more.
  void CheckPlans() MILLRACE_EXCLUDES(mutex_);

  // worker_trace.cc: what a trace is told. Nothing but a load of `on` where none is taken.
  void RecordBuild(const BuildQueue::Task& task, Time began, Time ended, const StageTimes& before,
                   const StageTimes& after) MILLRACE_REQUIRES(mutex_);
  void BeginSend(StreamId id, Outlet& outlet, const BuildQueue::Outgoing& outgoing)
      MILLRACE_REQUIRES(mutex_);
  void EndSend(Outlet& outlet) MILLRACE_REQUIRES(mutex_);

  const WorkerOptions options_;
  const std::shared_ptr<PlanProvider> provider_;
  const std::shared_ptr<Connector> connector_;
  const std::shared_ptr<const Clock> clock_;
  const std::shared_ptr<Logger> log_;
  TracePeer trace_;
  RefusalCounter refusals_;

  Mutex mutex_;
  CondVar work_available_;
  CondVar prepare_available_;
  CondVar look_due_changed_;
  std::minstd_rand random_ MILLRACE_GUARDED_BY(mutex_);
  WorkerMachine machine_ MILLRACE_GUARDED_BY(mutex_);
  bool stopping_ MILLRACE_GUARDED_BY(mutex_) = false;
  StreamId next_stream_ MILLRACE_GUARDED_BY(mutex_) = 1;
  std::map<StreamId, Outlet> outlets_ MILLRACE_GUARDED_BY(mutex_);
  /// The batch that each builder thread builds, by the thread's scratch.
  std::map<const BuilderScratch*, std::pair<StreamId, Position>> building_
      MILLRACE_GUARDED_BY(mutex_);
  std::shared_ptr<Stream<v1::WorkRequest>> work_ MILLRACE_GUARDED_BY(mutex_);
  std::uint64_t attempt_ MILLRACE_GUARDED_BY(mutex_) = 0;  // that work_ is of
  std::deque<v1::PlanSpec> to_compile_ MILLRACE_GUARDED_BY(mutex_);
  bool look_due_ MILLRACE_GUARDED_BY(mutex_) = false;  // at the files
  std::stop_source stop_looking_;
  Time memory_looked_at_ MILLRACE_GUARDED_BY(mutex_);
  bool short_of_memory_ MILLRACE_GUARDED_BY(mutex_) = false;

  std::deque<BuilderScratch> scratch_;  // of each builder thread; as long as the threads run
  std::vector<std::thread> threads_;
};

}  // namespace millrace
