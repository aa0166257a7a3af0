// What a worker decides: which plans it keeps, what it answers to want lists, what goes out on each
// consumer's stream and when, and what it tells the dispatcher. build_queue.h has what is built
// next. docs/protocol.md has the rules.
//
// A state machine without threads, network, disk or clock: events in, actions out, which
// TakeActions gives in order. worker_service.h runs it in a process, tests/sim through seeded
// histories. Every event brings the time, which never goes back.
//
// The adapter adds to a message on its way out what only it knows: the states of the datasets and
// file lists to a report, and the stage of a build to Alive.
//
// Not thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/ids.h"
#include "common/base/log.h"
#include "common/base/metrics.h"
#include "common/base/result.h"
#include "common/base/time.h"
#include "millrace/v1/dispatcher.pb.h"
#include "millrace/v1/worker.pb.h"
#include "server/worker/machine/build_queue.h"
#include "server/worker/machine/worker_actions.h"

namespace millrace {

class Plan;

class WorkerMachine {
 public:
  using StreamId = BuildQueue::StreamId;

  static constexpr Duration kAlivePeriod = std::chrono::seconds(1);
  static constexpr Duration kReportPeriod = std::chrono::seconds(1);
  static constexpr Duration kLookPeriod = std::chrono::seconds(1);
  static constexpr Duration kDispatcherSilence = std::chrono::seconds(3);
  /// Consumers repeat their want list each second while something is owed. Where none has come for
  /// so long, that is said at once.
  static constexpr Duration kWantsSilence = std::chrono::seconds(3);

  /// A plan that the dispatcher wants kept.
  struct KeptPlan {
    v1::PlanSpec spec;
    v1::PlanPhase phase = v1::COMPILING;
    std::shared_ptr<const Plan> plan;  // where ready
    std::string static_digest;         // where ready
    Status error;                      // where failed
  };
  /// What came of compiling one.
  struct ReadyPlan {
    std::shared_ptr<const Plan> plan;
    std::string static_digest;
  };
  /// How long a stage took for one batch.
  struct StageTook {
    std::string stage;
    double seconds = 0;
  };
  /// All that a stage took.
  struct StageTotal {
    double seconds = 0;
    std::uint64_t count = 0;
    Histogram batches;  // seconds each
  };

  /// `nonce` names this process for ever; `random` gives numbers in [0, 1), for reconnecting.
  WorkerMachine(WorkerOptions options, std::string nonce, std::function<double()> random,
                std::shared_ptr<Logger> log);

  void Start(Time now);
  /// Pulses, retries and the once-a-second report: due a few times a second.
  void Tick(Time now);
  /// Takes no new leases and asks consumers to go elsewhere.
  void Drain(Time now);
  /// Says goodbye to the dispatcher; nothing but TakeActions may be called afterwards.
  void Stop(Time now);
  /// A report goes out as soon as it can: what the adapter adds to it has changed.
  void ReportSoon(Time now);
  /// Datasets have come, moved or gone: plans that failed are tried again.
  void OnDatasetsChanged(Time now);
  /// More or less memory for batches that are built ahead. True where that made it forget some.
  bool SetMemoryBudget(std::uint64_t bytes);

  // --- The stream to the dispatcher; what comes of an earlier attempt is ignored ---
  void OnWorkResponse(std::uint64_t attempt, const v1::WorkResponse& response, Time now);
  void OnWorkWritten(std::uint64_t attempt, Time now);
  void OnWorkClosed(std::uint64_t attempt, const Status& status, Time now);

  // --- Streams of consumers; those that are not open are ignored ---
  /// `peer` is for messages. Numbers are never used again. ResourceExhausted where there are too
  /// many: the stream is not known then.
  Status OnStreamOpened(StreamId stream, const std::string& peer);
  void OnWants(StreamId stream, const v1::WantList& wants, Time now);
  void OnSent(StreamId stream, Time now);
  void OnStreamClosed(StreamId stream, const Status& status, Time now);

  // --- Plans and builds ---
  /// A plan is compiled, or cannot be, or (DataLoss) cannot be served any more.
  void OnPlan(const std::string& fingerprint, Result<ReadyPlan> plan, Time now);
  /// What is to be built next, by any thread of the adapter's; none where nothing may be built.
  std::optional<BuildQueue::Task> NextBuild() { return queue_.Next(); }
  /// The batch of a task is built: `bytes` of it, in `seconds`.
  void OnBuilt(const BuildQueue::Task& task, std::shared_ptr<const BuiltBatch> batch,
               std::uint64_t bytes, double seconds, const std::vector<StageTook>& stages, Time now);
  void OnBuildFailed(const BuildQueue::Task& task, const Status& why, Time now);

  std::vector<WorkerAction::Any> TakeActions();

  /// nullptr where there is none that is ready.
  const KeptPlan* FindReady(const std::string& fingerprint) const;
  const std::map<std::string, KeptPlan>& plans() const { return plans_; }
  /// Whether nobody waits for a batch of this worker.
  bool Idle() const;
  /// Whether a dispatcher knows it and it does not drain.
  bool Ready() const { return work_.registered && !draining_; }
  bool draining() const { return draining_; }
  const std::map<std::string, StageTotal>& build_seconds() const { return build_seconds_; }
  /// What batches have waited for credit, summed over streams.
  double SendBlockedSeconds(Time now) const;
  /// Of the consumer at the other end; unset before its first want list.
  Number SessionOf(StreamId stream) const;
  Number number() const { return number_; }
  std::uint64_t term() const { return term_; }
  const BuildQueue& queue() const { return queue_; }
  /// All that it knows, with what is built, as text for people who look for a fault. Times are
  /// seconds before the last tick.
  std::string Dump() const;

 private:
  enum class Writing : std::uint8_t { kNothing, kPart, kBatch };

  struct StreamEntry {
    std::string peer;
    Writing writing = Writing::kNothing;
    Time last_write;
    std::string fingerprint;            // of its first want list; empty before
    std::deque<v1::BatchPart> control;  // refusals and the like, sent before batches
    std::optional<Time> blocked_since;  // a built batch waits for credit
    Time wants_heard;                   // the last want list
    bool deaf_said = false;             // that none has come for kWantsSilence
    bool going_away_said = false;
    Number session;
  };

  // worker_machine.cc: consumers' streams, plans, builds
  void Pump(StreamId id, StreamEntry& stream, Time now);
  void PumpAll(Time now);
  void Write(StreamId id, StreamEntry& stream, v1::BatchPart part);
  void SendAlive(StreamId id, StreamEntry& stream, Time now);
  void Refuse(StreamEntry& stream, const Number& lease, const Status& why);
  void Close(StreamId id, const Status& why);
  void WakeBuilders();
  /// Why wants for a plan are refused. REQUIRES: the plan is not ready.
  Status WhyNotReady(const std::string& fingerprint) const;
  /// A plan that was ready cannot be served any more: what was built of it is forgotten.
  void FailPlan(const std::string& fingerprint, KeptPlan& entry, const Status& why, Time now);

  // worker_report.cc: the stream to the dispatcher
  const std::string& dispatcher() const { return dispatchers_[work_.address]; }
  void NextDispatcher() { work_.address = (work_.address + 1) % dispatchers_.size(); }
  void Connect(Time now);
  void KeepPlans(const v1::WorkResponse& response);
  void SendReport(Time now);
  v1::WorkRequest MakeReport(Time now) const;

  const WorkerOptions options_;
  const std::string nonce_;
  const std::vector<std::string> dispatchers_;  // their addresses
  const std::function<double()> random_;
  const std::shared_ptr<Logger> log_;
  std::vector<WorkerAction::Any> actions_;

  bool draining_ = false;
  BuildQueue queue_;
  std::map<StreamId, StreamEntry> streams_;
  std::map<std::string, KeptPlan> plans_;
  Time last_look_;
  Time last_tick_;

  std::map<std::string, StageTotal> build_seconds_;
  double mean_build_seconds_ = 0;
  double send_blocked_seconds_ = 0;
  std::uint64_t sent_batches_ = 0;
  std::uint64_t sent_bytes_ = 0;

  struct Work {
    std::uint64_t attempt = 0;
    std::size_t address = 0;  // of dispatchers_: the one that is tried, or has the stream
    bool open = false;
    bool writing = false;
    bool report_due = false;
    bool registered = false;
    Time reported;
    Time heard;
    Time retry_at;
    Time opened;
    Duration pause{0};         // before it was opened
    double retry_seconds = 1;  // the longest pause before the next
  } work_;
  std::uint64_t term_ = 0;  // highest seen
  Number number_;
  std::optional<Time> no_dispatcher_said_;  // unset while there is one
  std::vector<std::string> file_lists_wanted_;
  std::map<std::string, std::string> differences_;
};

}  // namespace millrace
