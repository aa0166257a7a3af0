// A dispatcher on a network: runs the state machine on a thread of its own and does what it asks
// for.
//
// Streams and requests of the network, results of compiling and committing, and ticks become tasks
// of one queue, which the event-loop thread runs one after another; only it touches the dispatcher.
// The queue is bounded: a stream is in it at most once (server_stream.h), a compilation once a
// pipeline, a commit once a job, and requests are counted. Plans are compiled and records committed
// on executors.
//
// Thread-safe. The network must not call a stopped service's endpoint for new streams; handlers of
// old ones may live on and do nothing.
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
#include "server/dispatcher/machine/dispatcher_machine.h"
#include "server/dispatcher/machine/plan_facts.h"
#include "server/dispatcher/machine/tally.h"
#include "server/dispatcher/service/plan_compiler.h"
#include "server/dispatcher/service/running_dispatcher.h"
#include "server/dispatcher/service/server_stream.h"
#include "server/dispatcher/service/task_queue.h"
#include "server/dispatcher/service/trace_collector.h"
#include "server/state/state_store.h"

namespace millrace {

/// What a dispatcher asks and tells whoever runs it. Called on any of its threads, and not after
/// its destructor.
struct DispatcherHooks {
  /// Asked before every event. Not ok: another one may lead by now, so that the event is dropped,
  /// all streams end with that status, and nothing is done any more. Null: it is the only one.
  std::function<Status()> may_lead;
  /// The store cannot go on (Internal): the process has to end.
  std::function<void(const Status&)> on_broken_store;
};

class DispatcherService final : public RunningDispatcher {
 public:
  /// Loads the store, commits a term above all before it, and starts the event loop. Errors of the
  /// store. `clock` should be one of CLOCK_BOOTTIME.
  static Result<std::shared_ptr<DispatcherService>> Start(const DispatcherOptions& options,
                                                          std::shared_ptr<StateStore> store,
                                                          std::shared_ptr<PlanCompiler> compiler,
                                                          std::shared_ptr<const Clock> clock,
                                                          std::shared_ptr<Logger> logger,
                                                          DispatcherHooks hooks = {});
  ~DispatcherService() override;

  /// Also ends the event loop. The destructor waits for a compilation that runs.
  void Stop() override;
  void SetDataset(const std::string& id, v1::DatasetState dataset) override;
  void SetAddress(const std::string& address) override;

  /// Runs a tick at the clock's present time and waits for it. For fake clocks, which have to be
  /// moved in steps of at most options.late_tick, with a tick after each: a longer one is a pause
  /// to the dispatcher.
  void Tick();

  /// The metrics of a dispatcher, filled in. Without most of them where the event loop does not
  /// answer.
  void AddMetrics(MetricSet& metrics) override;
  /// Whether this dispatcher leads: its term has begun and no higher one is known.
  bool leads() const override { return leads_; }
  /// When the event loop was last seen to go round.
  Time last_round() const override { return last_round_; }

  /// A later one each time that a peer has seen a higher term than this one's.
  std::uint64_t term() const override { return term_; }

  std::shared_ptr<StreamHandler<v1::AttachRequest>> OnAttach(
      std::shared_ptr<Stream<v1::AttachResponse>> stream, const std::string& peer) override;
  std::shared_ptr<StreamHandler<v1::WorkRequest>> OnWork(
      std::shared_ptr<Stream<v1::WorkResponse>> stream, const std::string& peer) override;
  std::shared_ptr<StreamHandler<v1::TraceRequest>> OnTrace(
      std::shared_ptr<Stream<v1::TraceChunk>> stream) override;
  Result<v1::ServiceStatus> OnGetStatus() override;
  Result<v1::DrainWorkerResponse> OnDrainWorker(const v1::DrainWorkerRequest& request) override;
  Result<v1::EndJobResponse> OnEndJob(const v1::EndJobRequest& request) override;

 private:
  /// A term that the store has committed, and what it had then.
  struct TermRecords {
    std::uint64_t term = 0;
    std::vector<v1::JobRecord> jobs;
  };
  static Result<TermRecords> BeginTerm(StateStore& store, const Clock& clock, std::uint64_t above);

  DispatcherService(const DispatcherOptions& options, std::shared_ptr<StateStore> store,
                    std::shared_ptr<PlanCompiler> compiler, std::shared_ptr<const Clock> clock,
                    std::shared_ptr<Logger> logger, DispatcherHooks hooks, TermRecords begun);

  void Loop();
  /// Whether the next event may be handled; else the loop ends.
  bool MayLead();
  Moment Now() const;
  void Perform(Actions actions);
  /// Asks all peers for spans, where a trace is taken.
  void TendTrace();
  void RecordLeases(const SendAttach& action);
  void BeginAnew();
  void Check(const Status& stored) const;
  void Begun(const Result<TermRecords>& begun);
  void Do(SendAttach& action);
  void Do(SendWork& action);
  void Do(CloseStream& action);
  void Do(CompilePlan& action);
  void Do(CommitRecord& action);
  void Do(LogEvent& action);
  template <class StreamT, class Out>
  std::shared_ptr<StreamT> Accept(std::map<StreamId, std::shared_ptr<StreamT>>& streams,
                                  std::shared_ptr<Stream<Out>> stream);
  template <class StreamT>
  void Drain(std::map<StreamId, std::shared_ptr<StreamT>>& streams, StreamId id);
  /// `method` is counted where the answer is a refusal.
  template <class T>
  Result<T> Ask(const char* method, std::function<Result<T>()> question);

  DispatcherOptions options_;  // changed by the event loop alone
  const std::shared_ptr<StateStore> store_;
  const std::shared_ptr<PlanCompiler> compiler_;
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

  // The event loop's own.
  DispatcherTally tally_;
  std::optional<DispatcherMachine> dispatcher_;  // always there
  std::map<std::string, v1::DatasetState> datasets_;
  bool beginning_ = false;  // a term is being committed
  Time begin_again_at_;     // where that failed
  Status lost_;             // not ok: another one may lead
  Time event_began_;        // the one that is handled; unset where no trace is taken
  std::map<StreamId, std::shared_ptr<AttachStream>> attach_streams_;
  std::map<StreamId, std::shared_ptr<WorkStream>> work_streams_;

  Executor compilers_;
  Executor committer_;  // one thread: records reach the store in order
  std::thread loop_;
};

}  // namespace millrace
