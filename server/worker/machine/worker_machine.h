// The state machine of a worker. It decides which plans the worker keeps, how it answers want
// lists, what it sends on each consumer's stream and when, and what it reports to the dispatcher.
// build_queue.h decides which batch is built next. docs/internals/protocol.md has the rules.
//
// The machine has no threads, network, disk or clock. Callers bring events, and TakeActions returns
// in order the actions that follow from them. Every event brings the time, which never goes back.
// worker_service.h runs the machine in a process; tests/sim runs it through seeded histories.
//
// The adapter completes outgoing messages: it adds the states of the datasets and file lists to a
// report, and the stages of builds to Alive.
//
// Not thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "common/access/identity.h"
#include "common/base/ids.h"
#include "common/base/log.h"
#include "common/base/metrics.h"
#include "common/base/result.h"
#include "common/base/time.h"
#include "millrace/v1/dispatcher.pb.h"
#include "millrace/v1/worker.pb.h"
#include "server/worker/machine/build_queue.h"
#include "server/worker/machine/build_times.h"
#include "server/worker/machine/idle_threads.h"
#include "server/worker/machine/measure_queue.h"
#include "server/worker/machine/shared_builds.h"
#include "server/worker/machine/stream_shares.h"
#include "server/worker/machine/worker_actions.h"
#include "server/worker/machine/worker_tuning.h"

namespace millrace {

class Plan;

class WorkerMachine {
 public:
  using StreamId = BuildQueue::StreamId;

  static constexpr Duration kAlivePeriod = std::chrono::seconds(1);
  /// The content of Alive on a stream may change this often: consumers and this process have no
  /// time for more frequent messages on many streams.
  static constexpr Duration kAliveSpacing = std::chrono::milliseconds(50);
  static constexpr Duration kAliveSpacingOfStream = std::chrono::milliseconds(1);
  static constexpr Duration kReportPeriod = std::chrono::seconds(1);
  static constexpr Duration kLookPeriod = std::chrono::seconds(1);
  static constexpr Duration kCompileAgain = std::chrono::seconds(2);
  static constexpr Duration kDispatcherSilence = std::chrono::seconds(3);
  /// A consumer repeats its want list each second. If no list has come for this long, the worker
  /// notifies the consumer at once.
  static constexpr Duration kWantsSilence = std::chrono::seconds(3);

  /// A plan that the dispatcher wants kept.
  struct KeptPlan {
    v1::PlanSpec spec;
    v1::PlanPhase phase = v1::COMPILING;
    std::shared_ptr<const Plan> plan;  // set if ready; null if the answer is that it lacks columns
    std::string static_digest;         // set if ready
    bool by_row = false;               // Plan::by_row, if ready
    std::set<std::uint64_t> pools;     // Plan::pools, if ready
    std::optional<v1::PlanAnswer> answer = {};  // set if ready, and asked (PlanSpec.asked)
    Status error;                               // set if failed
    Time retry_at;  // when it is compiled again, if it failed for the moment
  };
  /// A plan that was compiled.
  struct ReadyPlan {
    std::shared_ptr<const Plan> plan;
    std::string static_digest;
    std::string fingerprint;                    // of the pipeline compiled here
    std::string difference;                     // if it is not the dispatcher's plan: why, in words
    std::optional<v1::PlanAnswer> answer = {};  // if the dispatcher asks about the plan
    bool by_row = false;                        // Plan::by_row
    std::set<std::uint64_t> pools = {};         // Plan::pools
  };
  /// How long a stage took for one batch.
  struct StageTook {
    std::string_view stage;
    double seconds = 0;
  };
  /// The most stages that are counted separately. Pipelines name stages by their operations; the
  /// time of further stages counts for kOtherStages.
  static constexpr std::size_t kMaxStages = 64;
  static constexpr std::string_view kOtherStages = "others";
  /// How long a stage took for all batches so far.
  struct StageTotal {
    double seconds = 0;
    std::uint64_t count = 0;
    Histogram batches;  // seconds of each batch
  };

  /// `nonce` is unique among all processes, forever. `random` returns numbers in [0, 1); they
  /// spread the times of reconnects.
  WorkerMachine(WorkerOptions options, std::string nonce, std::function<double()> random,
                std::shared_ptr<Logger> log);

  void Start(Time now);
  /// Sends heartbeats, connects again, and reports once a second. The caller has to call it about
  /// once in kAliveSpacing.
  void Tick(Time now);
  /// Drains because the process is about to end: asks consumers to go elsewhere, and begins only
  /// batches that they wait for. This cannot be undone.
  void Drain(Time now);
  /// Says goodbye to the dispatcher; nothing but TakeActions may be called afterwards.
  void Stop(Time now);
  /// Sends a report as soon as possible. The adapter calls this when its part of the report has
  /// changed.
  void ReportSoon(Time now);
  /// Notes that datasets were added, moved or removed: plans that failed are compiled again.
  void OnDatasetsChanged(Time now);
  /// Changes how many bytes of batches may be built ahead. Returns whether built batches exceeded
  /// it, so that some were forgotten.
  bool SetMemoryBudget(std::uint64_t bytes);

  /// Sets how many CPUs the process may use now, at least 1.
  void OnCpus(int cpus);
  /// Sets the pools of plugins, always in the same order, and how many more bytes their processes
  /// may take together; nullopt: there is no limit.
  void OnPools(std::vector<PoolUse> pools, std::optional<std::int64_t> room);

  // --- The stream to the dispatcher; events of earlier attempts are ignored ---
  void OnWorkResponse(std::uint64_t attempt, const v1::WorkResponse& response, Time now);
  void OnWorkWritten(std::uint64_t attempt, Time now);
  void OnWorkClosed(std::uint64_t attempt, const Status& status, Time now);

  // --- Streams of consumers; events of streams that are not open are ignored ---
  /// Adds a stream. REQUIRES: its number was never used before. Returns ResourceExhausted and
  /// does not add the stream if there are too many.
  Status OnStreamOpened(StreamId stream, const Peer& peer);
  /// Checks that the peer may read all datasets of a plan. PermissionDenied names the first that it
  /// may not read. REQUIRES: the plan is ready.
  Status CheckDatasets(const std::string& fingerprint, const Identity& peer) const;
  void OnWants(StreamId stream, const v1::WantList& wants, Time now);
  void OnSent(StreamId stream, Time now);
  void OnStreamClosed(StreamId stream, const Status& status, Time now);

  // --- Plans and builds ---
  /// Takes a compiled plan, or why it could not be compiled. After Unavailable it is compiled again
  /// a little later. For a plan that was ready before, DataLoss means that it cannot be served any
  /// more, and other errors are ignored.
  void OnPlan(const std::string& fingerprint, Result<ReadyPlan> plan, Time now);
  /// Returns the batch that is to be built next, for any of the adapter's threads; nullopt if
  /// nothing may be built. Actions may follow from this, too.
  std::optional<BuildQueue::Task> NextBuild(Time now);
  /// Takes the built batch of a task. It has `bytes` bytes and took `seconds` seconds. Each stage
  /// comes once.
  void OnBuilt(const BuildQueue::Task& task, std::shared_ptr<const BuiltBatch> batch,
               std::uint64_t bytes, double seconds, const std::vector<StageTook>& stages, Time now);
  void OnBuildFailed(const BuildQueue::Task& task, const Status& why, Time now);

  // --- Batches that several threads build together (BuildTask::by_slices) ---
  // The adapter calls OnRows, and takes slices until there is none for its thread. The thread that
  // ends the last slice of a batch joins the rows, and brings OnBuilt or OnBuildFailed. Each thread
  // with a task, to build or to help with, calls OnLeft at the end.
  /// Sets how many rows the batch has. Returns whether it is built in slices. If not, the rest does
  /// not apply to it.
  bool OnRows(const BuildQueue::Task& task, std::size_t rows);
  /// The next slice for a thread that began a batch: of this batch, or of a batch that a consumer
  /// waits for. nullopt if its own batch has no slice left.
  std::optional<SliceTask> NextSlice(const BuildQueue::Task& own);
  /// A slice for a thread without a batch. `before_builds`: it asks before it begins one; then only
  /// a batch that a consumer waits for is worth it.
  std::optional<SliceTask> NextHelp(bool before_builds, Time now);
  /// Notes that a slice has ended, after `seconds`. Returns whether the thread has to join the
  /// batch.
  bool OnSliceEnded(const SliceTask& slice, double seconds, bool ok);
  void OnLeft(Time now);

  /// Returns examples that are to be measured next, for a thread that has nothing to build.
  std::optional<MeasureJob> NextMeasure() { return measuring_.Next(); }
  /// Takes measured columns, or why they cannot be measured.
  void OnMeasured(const MeasureJob& job, Result<std::vector<v1::MeasuredColumn>> columns, Time now);
  const MeasureQueue& measuring() const { return measuring_; }
  /// The number of threads that may build now: further threads have to rest.
  int threads() const { return tuning_.threads(); }
  /// The number of processes that may run now, of each tuned pool.
  std::map<std::uint64_t, int> MostProcesses() const { return tuning_.MostProcesses(); }

  std::vector<WorkerAction::Any> TakeActions();

  /// Returns the plan; nullptr if the worker has no ready plan of this fingerprint. Plans that were
  /// only asked for do not count.
  const KeptPlan* FindReady(const std::string& fingerprint) const;
  const std::map<std::string, KeptPlan>& plans() const { return plans_; }
  /// Whether a drain is over: no step that consumers ask for is being built, built or on its way
  /// out. Batches that they hold or that are kept for them do not count.
  bool Idle() const;
  /// Whether a dispatcher knows the worker and the worker does not drain.
  bool Ready() const { return work_.registered && !draining(); }
  bool draining() const { return drain_ordered_ || leaving_; }
  const std::map<std::string, StageTotal, std::less<>>& build_seconds() const {
    return build_seconds_;
  }
  /// For how long built batches have waited for credit, summed over streams.
  double SendBlockedSeconds(Time now) const;
  /// The session of the consumer at the other end; unset before its first want list.
  SessionId SessionOf(StreamId stream) const;
  /// Number of sent batches that had been built for another stream.
  std::uint64_t shared_batches() const { return shared_batches_; }
  WorkerId id() const { return id_; }
  std::uint64_t term() const { return term_; }
  const BuildQueue& queue() const { return queue_; }
  /// The state of the machine and its queue, as text for debugging. Times are seconds before the
  /// last tick.
  std::string Dump() const;

 private:
  enum class Writing : std::uint8_t { kNothing, kControl, kBatch };

  /// The figures of the worker's speed and of a stream's share, for the stream.
  struct Figures {
    std::uint32_t slots = 0;
    std::uint32_t threads_milli = 0;
    double batch_ms = 0;
    std::uint32_t split = 1;
    std::optional<double> turn_seconds;  // until the next build of its job, after other jobs'
                                         // builds
  };
  struct UnderWay {
    Time since;
    double usual_seconds = 0;  // that a build of its job takes; 0: not known yet
  };

  struct StreamEntry {
    Peer peer;
    Writing writing = Writing::kNothing;
    Time last_write;
    std::string fingerprint;            // of its first want list; empty before that
    std::deque<v1::BatchFragment> control;  // refusals, which are sent before batches
    std::optional<Time> blocked_since;  // set while a built batch waits for credit
    Time wants_heard;                   // when the last want list came
    bool deaf_said = false;             // the consumer was notified that no want list comes
    bool going_away_said = false;
    SessionId session;
    Compression compression = Compression::kOff;  // of the fragments of batches
    bool alive_due = true;  // an Alive goes as soon as the stream is free, and before all else
    Time alive_said;        // the last Alive
    Figures figures;        // as sent at alive_said
    std::uint64_t changes_said = 0;  // BuildQueue::Changes as sent
    bool asks = false;               // by its last want list
    Time pending_seen;     // when a step of it last waited to be begun
  };

  // worker_streams.cc: consumers' streams
  void Pump(StreamId id, StreamEntry& stream, Time now);
  void PumpAll(Time now);
  /// Pumps the streams that got a built batch.
  void PumpReady(Time now);
  void Write(StreamId id, StreamEntry& stream, v1::BatchFragment message,
             std::vector<std::uint64_t> builds = {});
  /// `at`: the step that cannot be built; unset: no step that the stream asks for.
  void Refuse(StreamEntry& stream, const Status& why, std::optional<Position> at = std::nullopt);
  void Close(StreamId id, const Status& why);
  void Forget(StreamId id);
  void WakeBuilders();
  /// Notifies all consumers that the worker drains, or no longer drains.
  void TellDrain(Time now);

  // worker_alive.cc
  /// Sets in the shares whether the stream takes part in the worker's threads and slots: it asks
  /// for more, or a step of it waits here.
  void ShareWith(StreamId id, StreamEntry& stream, Time now);
  Duration AliveSpacing() const;
  /// Notes whether built batches and builds have news for the stream. A batch that goes out between
  /// two ticks is its own news.
  void NoteChanges(StreamId id, StreamEntry& stream, Time now);
  /// Whether the worker has to send a heartbeat or news.
  bool AliveIsDue(StreamId id, const StreamEntry& stream, Time now) const;
  void SendAlive(StreamId id, StreamEntry& stream, Time now);
  /// The number of threads that build a batch of the plan together.
  std::uint32_t SplitOf(const std::string& plan, const PlanBuilds& builds) const;
  Figures FiguresOf(StreamId id, const StreamEntry& stream, Time now) const;
  /// Seconds until the next build of the stream's job; nullopt if no other job has builds.
  std::optional<double> TurnOf(StreamId id, Time now) const;
  /// Whether the turn comes sooner or later than was sent `seconds_ago`.
  static bool TurnChanged(const Figures& figures, const Figures& said, double seconds_ago);
  WorkerCapacity CapacityFor(const PlanBuilds& builds) const;
  /// Heartbeats of all streams.
  void TickStreams(Time now);

  // worker_machine.cc: plans, builds
  void OnBuildEnded(const BuildQueue::Task& task, bool mostly_python, Time now);
  StageTotal& TotalOf(std::string_view stage);
  // worker_slices.cc
  bool IsByRow(const std::string& plan) const;
  /// The most threads that may build one batch of the plan: no more than a plugin has processes.
  int MostThreads(const std::string& plan) const;
  /// Returns why steps of a plan are refused. REQUIRES: the plan is not ready.
  Status WhyNotReady(const std::string& fingerprint) const;
  /// Ends a plan that was ready and cannot be served any more. Its built batches are forgotten.
  void FailPlan(const std::string& fingerprint, KeptPlan& entry, const Status& why, Time now);

  // worker_report.cc: the stream to the dispatcher
  const std::string& dispatcher() const { return dispatchers_[work_.address]; }
  void NextDispatcher() { work_.address = (work_.address + 1) % dispatchers_.size(); }
  void Connect(Time now);
  /// Begins the drain that an operator orders, or ends it.
  void ObeyDrain(const v1::WorkResponse& response, Time now);
  void KeepPlans(const v1::WorkResponse& response);
  /// A plan of this fingerprint that was compiled because the dispatcher asked; nullptr if there is
  /// none.
  const KeptPlan* FindAsked(const std::string& fingerprint) const;
  void SendReport(Time now);
  v1::WorkRequest MakeReport(Time now) const;

  const WorkerOptions options_;
  const std::string nonce_;
  const std::vector<std::string> dispatchers_;  // addresses, of which one is tried at a time
  const std::function<double()> random_;
  const std::shared_ptr<Logger> log_;
  std::vector<WorkerAction::Any> actions_;

  bool drain_ordered_ = false;  // by an operator, who may take it back
  bool leaving_ = false;        // the process is about to end
  BuildQueue queue_;
  StreamShares shares_;
  BuildTimes build_times_;
  IdleThreads idle_threads_;
  SharedBuilds shared_builds_;
  std::map<std::uint64_t, UnderWay> building_;    // by the number of the build
  MeasureQueue measuring_;
  WorkerTuning tuning_;
  std::map<StreamId, StreamEntry> streams_;
  std::map<std::string, KeptPlan> plans_;
  Time last_look_;
  Time last_tick_;

  std::map<std::string, StageTotal, std::less<>> build_seconds_;
  double mean_build_seconds_ = 0;
  double send_blocked_seconds_ = 0;
  std::uint64_t sent_batches_ = 0;
  std::uint64_t sent_bytes_ = 0;
  std::uint64_t shared_batches_ = 0;  // sent batches that were taken over from another build

  struct Work {
    std::uint64_t attempt = 0;
    std::size_t address = 0;  // index in dispatchers_, tried or connected
    bool open = false;
    bool writing = false;
    bool report_due = false;
    bool registered = false;
    Time reported;
    std::uint64_t tuning_told = 0;  // WorkerTuning::changes() as sent on the stream
    Time heard;
    Time retry_at;
    Time opened;
    Duration pause{0};         // the wait before the present attempt, or before the next if closed
    double retry_seconds = 1;  // the longest pause before the next attempt
  } work_;
  std::uint64_t term_ = 0;  // the highest seen
  WorkerId id_;
  std::optional<Time> no_dispatcher_said_;  // when it was logged last; unset while connected
  std::vector<std::string> file_lists_wanted_;
  std::map<std::string, std::string> differences_;
};

}  // namespace millrace
