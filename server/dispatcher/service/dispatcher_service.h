// A dispatcher on a network. It runs the state machine on a thread of its own, and performs its
// actions.
//
// One thread, the event loop, runs the machine's ticks and the tasks of a queue, one after another.
// No other thread touches the machine. Streams and requests of the network become tasks of the
// queue, and so do the results of compiling plans and of committing records, which executors do.
//
// The queue is bounded. It has at most one task for each stream (server_stream.h), one for each
// pipeline that is compiled, one for each column that is kept, and one for each job whose record is
// committed. Requests are counted.
//
// Thread-safe. After the service was stopped, the network must not bring it new streams. Handlers
// of old streams may live on; they do nothing.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "common/base/log.h"
#include "common/base/metrics.h"
#include "common/system/clock.h"
#include "common/system/refusal_counter.h"
#include "common/transport/strand.h"
#include "common/transport/stream.h"
#include "server/dispatcher/machine/counters.h"
#include "server/dispatcher/machine/dispatcher_machine.h"
#include "server/dispatcher/service/plan_compiler.h"
#include "server/dispatcher/service/running_dispatcher.h"
#include "server/dispatcher/service/server_stream.h"
#include "server/dispatcher/service/task_queue.h"
#include "server/dispatcher/service/trace_collector.h"
#include "server/plan/facts/plan_facts.h"
#include "server/state/state_store.h"

namespace millrace {

/// Functions by which a dispatcher asks and notifies its owner. They are called on any of its
/// threads, but not after its destructor.
struct DispatcherHooks {
  /// Asked before every event. If it is not ok, another dispatcher may lead by now. The event is
  /// then dropped, all streams end with that status, and nothing is done any more. Null if there is
  /// no other dispatcher.
  std::function<Status()> may_lead;
  /// Called if the store cannot go on (Internal). The process then has to end.
  std::function<void(const Status&)> on_broken_store;
  /// Called for each status; returns how the control port is protected. May be null.
  std::function<v1::PortSecurity()> security;
};

class DispatcherService final : public RunningDispatcher {
 public:
  /// Loads the store, commits a term higher than all terms before it, and starts the event loop.
  /// Errors of the store. `clock` should read CLOCK_BOOTTIME.
  static Result<std::shared_ptr<DispatcherService>> Start(const DispatcherOptions& options,
                                                          std::shared_ptr<StateStore> store,
                                                          std::shared_ptr<PlanCompiler> compiler,
                                                          std::shared_ptr<const Clock> clock,
                                                          std::shared_ptr<Logger> logger,
                                                          DispatcherHooks hooks = {});
  ~DispatcherService() override;

  /// Also ends the event loop. A compilation may still run; only the destructor waits for it.
  void Stop() override;
  void SetDataset(const std::string& id, v1::DatasetState dataset) override;
  void SetAddress(const std::string& address) override;

  /// Runs a tick at the clock's present time and waits for it. It is for fake clocks. Move such a
  /// clock in steps of at most options.late_tick, with a tick after each step. The dispatcher
  /// counts a longer step as a pause.
  void Tick();

  /// Adds the dispatcher's metrics. Most of them are missing if the event loop does not answer.
  void AddMetrics(MetricSet& metrics) override;
  /// Whether this dispatcher leads: its term has begun and no higher one is known.
  bool leads() const override { return leads_; }
  /// The time of the event loop's last round.
  Time last_round() const override { return last_round_; }

  /// The present term. The dispatcher begins a higher one if a peer has seen a higher one.
  std::uint64_t term() const override { return term_; }

  std::shared_ptr<StreamHandler<v1::AttachRequest>> OnAttach(
      std::shared_ptr<Stream<v1::AttachResponse>> stream, const Peer& peer) override;
  std::shared_ptr<StreamHandler<v1::WorkRequest>> OnWork(
      std::shared_ptr<Stream<v1::WorkResponse>> stream, const Peer& peer) override;
  std::shared_ptr<StreamHandler<v1::TraceRequest>> OnTrace(
      std::shared_ptr<Stream<v1::TraceChunk>> stream) override;
  Result<std::shared_ptr<const std::string>> OnGetColumn(
      const v1::GetColumnRequest& request) override;
  Result<v1::ServiceStatus> OnGetStatus(const Peer& peer) override;
  Result<v1::DrainWorkerResponse> OnDrainWorker(const v1::DrainWorkerRequest& request) override;
  Result<v1::UndrainWorkerResponse> OnUndrainWorker(
      const v1::UndrainWorkerRequest& request) override;
  Result<v1::EndJobResponse> OnEndJob(const v1::EndJobRequest& request, const Peer& peer) override;

 private:
  /// A term that the store has committed, and the job records that the store had then.
  struct TermRecords {
    std::uint64_t term = 0;
    std::vector<v1::JobRecord> jobs;
  };
  static Result<TermRecords> BeginTerm(StateStore& store, const Clock& clock, std::uint64_t above);

  DispatcherService(const DispatcherOptions& options, std::shared_ptr<StateStore> store,
                    std::shared_ptr<PlanCompiler> compiler, std::shared_ptr<const Clock> clock,
                    std::shared_ptr<Logger> logger, DispatcherHooks hooks, TermRecords begun);

  void Loop();
  /// Handles an event, and counts its time.
  template <class Event>
  void Handle(Event event);
  /// Whether the next event may be handled. If not, the loop ends.
  bool MayLead();
  Moment Now() const;
  void Perform(Actions actions);
  /// Asks all peers for spans, if a trace is being taken.
  void TendTrace();
  void BeginAnew();
  void Check(const Status& stored) const;
  void Begun(const Result<TermRecords>& begun);
  void Do(SendAttach& action);
  void Do(SendWork& action);
  void Do(CloseStream& action);
  void Do(CompilePlan& action);
  void Do(KeepMeasured& action);
  void Do(FinishColumns& action);
  void Do(AbandonColumns& action);
  void Do(CommitRecord& action);
  void Do(LogEvent& action);
  template <class StreamT, class Out>
  std::shared_ptr<StreamT> Accept(std::map<StreamId, std::shared_ptr<StreamT>>& streams,
                                  std::shared_ptr<Stream<Out>> stream, const Identity& peer);
  /// Checks that the peer may read the datasets of a hello's pipeline, and use its plugins. Ok if
  /// the pipeline cannot be read: then compiling it says why.
  Status CheckDatasets(const v1::AttachRequest& request, const Identity& peer);
  template <class StreamT>
  void Drain(std::map<StreamId, std::shared_ptr<StreamT>>& streams, StreamId id);
  /// Runs `question` on the event loop and waits for its answer. A refusal is counted for `method`.
  template <class T>
  Result<T> Ask(const char* method, std::function<Result<T>()> question);
  /// Likewise, for a question that takes long: `step` is called until it answers, and other events
  /// run in between.
  template <class T>
  Result<T> AskInSteps(const char* method, std::function<std::optional<Result<T>>()> step);

  DispatcherOptions options_;  // only the event loop changes them
  const std::shared_ptr<StateStore> store_;
  const std::shared_ptr<PlanCompiler> compiler_;
  const std::shared_ptr<ColumnKeeper> columns_;  // null: plans never lack columns
  const std::shared_ptr<const Clock> clock_;
  const std::shared_ptr<Logger> logger_;
  const DispatcherHooks hooks_;
  std::atomic<std::uint64_t> term_;

  const std::shared_ptr<TaskQueue> queue_;
  const std::shared_ptr<TraceCollector> traces_;
  std::atomic<StreamId> last_stream_{0};
  std::atomic<int> questions_{0};
  std::atomic<bool> leads_{true};
  std::atomic<Time> last_round_;
  RefusalCounter refusals_;

  // Only the event loop uses these.
  DispatcherCounters counters_;
  std::optional<DispatcherMachine> dispatcher_;  // never empty
  std::map<std::string, v1::DatasetState> datasets_;
  bool beginning_ = false;  // a term is being committed
  Time begin_again_at_;     // when to try again if that failed
  Status lost_;             // not ok: another dispatcher may lead
  Histogram events_;        // how long each event took
  std::map<StreamId, std::shared_ptr<AttachStream>> attach_streams_;
  std::map<StreamId, std::shared_ptr<WorkStream>> work_streams_;

  Executor compilers_;
  Executor keeper_;     // one thread: ranges come before the end of measuring
  Executor committer_;  // one thread: records reach the store in order
  std::thread loop_;
};

}  // namespace millrace
