// A worker: keeps the plans it is told to, builds what consumers have room for, and sends it. Holds
// no state that matters: any other worker can build any of its batches.
//
// Threads: `threads` builders, one that opens datasets, one that compiles plans, one that looks at
// the files in use once a second, and whatever the network calls from. Time comes from outside:
// call Tick() a few times a second. Thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/mutex.h"
#include "common/transport/stream.h"
#include "common/transport/trace_peer.h"
#include "server/pipeline/plan.h"
#include "server/worker/batch_stream.h"
#include "server/worker/build_queue.h"

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
  /// need them do not compile any more.
  virtual bool CheckFiles() = 0;
  /// Names, sizes and digests of a dataset's files.
  virtual std::vector<v1::FileEntry> ListFiles(const std::string& dataset) = 0;
};

struct WorkerOptions {
  std::string name;         // for people; host:pid where not given
  std::string address;      // where consumers reach its batch service
  std::string host_id;      // equal for processes of one host
  std::string unix_socket;  // where consumers of this host reach it; empty: nowhere
  std::string dispatcher;   // host:port, or several with commas between them
  int threads = 1;
  std::uint64_t memory_bytes = 1u << 30;  // of batches built and not sent
  std::string version;
};

class WorkerService final : public WorkerEndpoint,
                            public std::enable_shared_from_this<WorkerService> {
 public:
  WorkerService(WorkerOptions options, std::shared_ptr<PlanProvider> plans,
                std::shared_ptr<Connector> connector, std::shared_ptr<const Clock> clock,
                std::shared_ptr<Logger> log);
  ~WorkerService() override;

  /// Starts the threads and goes to the dispatcher.
  void Start();
  /// Pulses, retries, and the once-a-second report.
  void Tick();
  /// Takes no new leases and asks consumers to go elsewhere.
  void Drain();
  /// Whether nobody waits for a batch of this worker.
  bool Idle();
  /// Says goodbye, ends all streams and joins the threads; a dataset that is being opened is waited
  /// for, so that its owner should end that before. Idempotent.
  void Stop();

  std::shared_ptr<StreamHandler<v1::WantList>> OnStreamBatches(
      std::shared_ptr<Stream<OutgoingPart>> stream, const std::string& peer) override;
  Result<StaticBytes> OnGetStatic(const std::string& fingerprint) override;

 private:
  class BatchHandler;
  class WorkHandler;

  struct PlanEntry {
    v1::PlanSpec spec;
    v1::PlanPhase phase = v1::COMPILING;
    std::shared_ptr<const Plan> plan;
    Status error;  // where failed
  };

  struct StreamEntry {
    std::unique_ptr<BatchStream> out;
    std::string fingerprint;            // of its first want list; empty before
    std::deque<v1::BatchPart> control;  // refusals and the like, sent before batches
    std::optional<Time> blocked_since;  // a built batch waits for credit
    bool going_away_said = false;
    Number session;  // of the consumer, as its want lists say
    Span sending;    // of the batch that is half-way out, while a trace is taken
  };

  // Streams of consumers.
  void OnWants(std::uint64_t id, const v1::WantList& wants);
  void OnBatchWriteDone(std::uint64_t id);
  void OnBatchStreamClosed(std::uint64_t id, const Status& status);
  void Pump(std::uint64_t id, StreamEntry& stream) MILLRACE_REQUIRES(mutex_);
  void SendAlive(std::uint64_t id, StreamEntry& stream) MILLRACE_REQUIRES(mutex_);
  void Refuse(StreamEntry& stream, const Number& lease, const Status& why)
      MILLRACE_REQUIRES(mutex_);
  void RefuseAll(StreamEntry& stream, const v1::WantList& wants, const Status& why)
      MILLRACE_REQUIRES(mutex_);

  // The stream to the dispatcher.
  void ConnectToDispatcher() MILLRACE_REQUIRES(mutex_);
  void OnWorkResponse(std::uint64_t attempt, const v1::WorkResponse& response);
  void OnWorkWriteDone(std::uint64_t attempt);
  void OnWorkClosed(std::uint64_t attempt, const Status& status);
  void SendReport() MILLRACE_REQUIRES(mutex_);
  v1::WorkRequest MakeReport() MILLRACE_REQUIRES(mutex_);
  void KeepPlans(const v1::WorkResponse& response) MILLRACE_REQUIRES(mutex_);

  void BuildLoop();
  /// A plan that was dropped and compiled again is another object, with scratch of its own.
  struct PlanScratch {
    std::weak_ptr<const Plan> plan;
    std::unique_ptr<BatchScratch> scratch;
  };
  using ScratchByPlan = std::map<std::string, PlanScratch>;
  /// Lets go of the mutex while it builds.
  void BuildOne(const BuildQueue::Task& task, ScratchByPlan& scratch) MILLRACE_REQUIRES(mutex_);
  // worker_trace.cc: what a trace is told. Nothing but a load of `on` where none is taken.
  using StageTimes = std::vector<BatchScratch::StageTime>;
  void RecordBuild(const BuildQueue::Task& task, Time began, Time ended, const StageTimes& before,
                   const StageTimes& after) MILLRACE_REQUIRES(mutex_);
  void BeginSend(std::uint64_t id, StreamEntry& stream, const BuildQueue::Outgoing& outgoing)
      MILLRACE_REQUIRES(mutex_);
  void EndSend(StreamEntry& stream) MILLRACE_REQUIRES(mutex_);

  void OpenDatasets();
  void PrepareLoop();
  void WatchLoop();
  /// Lets go of the mutex while it compiles.
  void CheckPlans() MILLRACE_REQUIRES(mutex_);
  /// A plan that was ready cannot be served any more: what was built of it is forgotten.
  void FailPlan(const std::string& fingerprint, const Status& why) MILLRACE_REQUIRES(mutex_);
  /// Why wants for a plan are refused. REQUIRES: the plan is not ready.
  Status WhyNotReady(const std::string& fingerprint) const MILLRACE_REQUIRES(mutex_);

  const WorkerOptions options_;
  const std::shared_ptr<PlanProvider> provider_;
  const std::shared_ptr<Connector> connector_;
  const std::shared_ptr<const Clock> clock_;
  const std::shared_ptr<Logger> log_;
  const std::string nonce_;
  const std::vector<std::string> dispatchers_;  // their addresses
  TracePeer trace_;

  Mutex mutex_;
  CondVar work_available_;
  CondVar prepare_available_;
  CondVar look_due_changed_;
  bool stopping_ MILLRACE_GUARDED_BY(mutex_) = false;
  bool draining_ MILLRACE_GUARDED_BY(mutex_) = false;
  BuildQueue queue_ MILLRACE_GUARDED_BY(mutex_);
  std::map<std::uint64_t, StreamEntry> streams_ MILLRACE_GUARDED_BY(mutex_);
  std::uint64_t next_stream_ MILLRACE_GUARDED_BY(mutex_) = 1;
  std::map<std::string, PlanEntry> plans_ MILLRACE_GUARDED_BY(mutex_);
  std::deque<std::string> to_compile_ MILLRACE_GUARDED_BY(mutex_);
  bool look_due_ MILLRACE_GUARDED_BY(mutex_) = false;  // at the files
  Time last_look_ MILLRACE_GUARDED_BY(mutex_);
  double mean_build_seconds_ MILLRACE_GUARDED_BY(mutex_) = 0;
  double send_blocked_seconds_ MILLRACE_GUARDED_BY(mutex_) = 0;
  std::uint64_t sent_batches_ MILLRACE_GUARDED_BY(mutex_) = 0;
  std::uint64_t sent_bytes_ MILLRACE_GUARDED_BY(mutex_) = 0;
  struct StageTotal {
    double seconds = 0;
    std::uint64_t count = 0;
  };
  std::map<std::string, StageTotal> build_seconds_ MILLRACE_GUARDED_BY(mutex_);

  std::shared_ptr<Stream<v1::WorkRequest>> work_ MILLRACE_GUARDED_BY(mutex_);
  std::uint64_t attempt_ MILLRACE_GUARDED_BY(mutex_) = 0;
  std::size_t dispatcher_ MILLRACE_GUARDED_BY(mutex_) = 0;  // the one that is tried, or has it
  bool work_writing_ MILLRACE_GUARDED_BY(mutex_) = false;
  bool report_due_ MILLRACE_GUARDED_BY(mutex_) = false;
  bool registered_ MILLRACE_GUARDED_BY(mutex_) = false;
  Time last_report_ MILLRACE_GUARDED_BY(mutex_);
  Time last_heard_ MILLRACE_GUARDED_BY(mutex_);
  Time retry_at_ MILLRACE_GUARDED_BY(mutex_);
  double retry_seconds_ MILLRACE_GUARDED_BY(mutex_) = 0.1;
  std::uint64_t term_ MILLRACE_GUARDED_BY(mutex_) = 0;
  Number number_ MILLRACE_GUARDED_BY(mutex_);
  /// When it was last said that there is no dispatcher; unset while there is one.
  std::optional<Time> no_dispatcher_said_ MILLRACE_GUARDED_BY(mutex_);
  std::vector<std::string> file_lists_wanted_ MILLRACE_GUARDED_BY(mutex_);
  std::map<std::string, std::string> differences_ MILLRACE_GUARDED_BY(mutex_);
  std::minstd_rand random_ MILLRACE_GUARDED_BY(mutex_);

  std::vector<std::thread> threads_;
};

}  // namespace millrace
