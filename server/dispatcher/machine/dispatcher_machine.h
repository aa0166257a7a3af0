// The dispatcher: admits sessions to jobs, names the workers that may build for each of them, and
// sends workers the plans to keep. docs/internals/protocol.md has the rules.
//
// It is a single-threaded state machine: events in, actions out. It reads no clock and touches no
// network, disk or thread, so that a simulator can run it through thousands of histories. Every
// event brings the time, and every change of the facts is an Update (updates.h). Events come in the
// order of time. The events of a stream come between its opening and its close. The machine ignores
// events of streams that it does not know or has closed.
//
//   consumer ── Hello ──▶ OnAttach ─▶ CompilePlan ─▶ OnPlanCompiled ─▶ CommitRecord
//            ◀─ Welcome ───────── Admission::Reconcile ◀──────────────── OnRecordCommitted
//            ── Report ─▶ OnAttach ─▶ Reports::Hear ─▶ WorkerLists ─▶ SendAttach (list)
//
// Its components decide. Admission brings a session from Hello to Welcome, with the help of
// PlanRequests and JobRecords. Reports answers consumers, WorkerLists sends them their lists, Fleet
// answers workers, and Sessions sends consumers all other messages. The components share a
// Transition. DesiredWorkers only reads the facts, for status and metrics. This class handles
// streams, terms and time itself, and then calls the components.
//
// Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "server/dispatcher/machine/admission.h"
#include "server/dispatcher/machine/desired_workers.h"
#include "server/dispatcher/machine/fleet.h"
#include "server/dispatcher/machine/heartbeat_round.h"
#include "server/dispatcher/machine/job_records.h"
#include "server/dispatcher/machine/plan_requests.h"
#include "server/dispatcher/machine/reports.h"
#include "server/dispatcher/machine/sessions.h"
#include "server/dispatcher/machine/transition.h"
#include "server/dispatcher/machine/worker_lists.h"

namespace millrace {

class DispatcherMachine {
 public:
  /// Makes the dispatcher of a term that its store has committed. `records` are the records in the
  /// store. `watch`, if set, sees every update before it is applied.
  DispatcherMachine(const DispatcherOptions& options, std::uint64_t term,
                    std::vector<v1::JobRecord> records, Moment now,
                    const std::function<void(const Update&)>& watch = nullptr);
  DispatcherMachine(const DispatcherMachine&) = delete;
  DispatcherMachine& operator=(const DispatcherMachine&) = delete;

  // --- Events ---
  /// A dataset of this host has been opened, with its file list, or could not be opened.
  Actions OnDataset(const std::string& id, const v1::DatasetState& dataset, Moment now);
  /// `peer`: the name that it has proved; empty if names are not proved.
  Actions OnStreamOpened(StreamId stream, bool of_worker, Moment now, std::string peer = {});
  Actions OnStreamClosed(StreamId stream, Moment now);
  Actions OnAttach(StreamId stream, v1::AttachRequest request, Moment now);
  /// The adapter has refused this hello, because its peer lacks a right. It is only noted for
  /// people.
  Actions OnHelloRefused(const v1::Hello& hello, const Status& why, Moment now);
  Actions OnWork(StreamId stream, const v1::WorkRequest& request, Moment now);
  Actions OnTick(Moment now);
  Actions OnPlanCompiled(const std::string& key,
                         const Result<std::shared_ptr<const PlanFacts>>& plan, Moment now);
  /// The other answer to a CompilePlan: columns have to be measured before the plan compiles.
  Actions OnColumnsMissing(const std::string& key, const ColumnWant& want, Moment now);
  /// The third answer to a CompilePlan: this host lacks plugins that the plan needs. Workers that
  /// have them are asked.
  Actions OnPluginsMissing(const std::string& key, const std::vector<std::string>& plugins,
                           Moment now);
  /// The fourth answer: data of this host are damaged. Workers are asked for the plan of a job that
  /// has begun. `named`: the datasets and plugins of the pipeline, as NamedBy of a PlanCompiler.
  Actions OnDataDamaged(const std::string& key, const Status& why,
                        const std::vector<std::string>& named, Moment now);
  /// The answer to a FinishColumns, by the key of the columns.
  Actions OnColumnsKept(const std::string& columns, const Status& status, Moment now);
  Actions OnRecordCommitted(const v1::JobRecord& record, const Status& status, Moment now);

  // --- Requests of operators ---
  // `actions` is set to the effects of a request. A dispatcher that has stepped down answers
  // Unavailable.
  /// NotFound, with the known workers; FailedPrecondition if several have the name.
  Result<v1::DrainWorkerResponse> DrainWorker(const v1::DrainWorkerRequest& request, Moment now,
                                              Actions& actions);
  /// Takes a drain back. The same errors; FailedPrecondition also if the worker does not drain.
  Result<v1::UndrainWorkerResponse> UndrainWorker(const v1::UndrainWorkerRequest& request,
                                                  Moment now, Actions& actions);
  /// NotFound, with the jobs that have sessions. If `owner` is set, this concerns only the jobs
  /// that this peer began: PermissionDenied for others. `who`: the name that the operator has
  /// proved.
  Result<v1::EndJobResponse> EndJob(const v1::EndJobRequest& request, Moment now, Actions& actions,
                                    const std::optional<std::string>& owner = {},
                                    const std::string& who = {});

  const DispatcherFacts& facts() const { return transition_.facts(); }
  /// The last events of this term.
  const EventLog& events() const { return transition_.events(); }
  /// Not ok if this dispatcher's term is over: another dispatcher exists, and this one serves
  /// nobody any more.
  const Status& stepped_down() const { return stepped_down_; }
  /// The term of that other dispatcher; 0 if only the store has reported it.
  std::uint64_t seen_term() const { return seen_term_; }

  /// The number of workers that jobs need. It is updated once in every round of heartbeats.
  const DesiredWorkers& desired_workers() const { return desired_workers_; }

  /// Why no worker can build for this session now; empty if one can.
  std::string NoWorkerWhy(const SessionFacts& session) const {
    return reports_.NoWorkerWhy(session);
  }

 private:
  /// Finishes an event: reconciles jobs, notifies workers and consumers, and returns the actions.
  Actions End();
  void Hear(StreamId stream, v1::AttachRequest request);
  void Greet(StreamId stream, const v1::Hello& hello);
  /// Closes the stream of a peer whose message breaks the protocol's rules.
  void Refuse(StreamId stream, const Status& why);
  void HearWorker(StreamId stream, const v1::WorkRequest& request);
  /// Sends heartbeats to the peers whose turn it is.
  void Heartbeat();
  /// Closes the streams whose first message has not come in time.
  void CloseLateHandshakes();

  void StepDown(const std::string& why, std::uint64_t seen = 0);
  /// Whether a peer has seen a higher term than this dispatcher's. If so, this dispatcher steps
  /// down. If no clock can have given that term, the peer's stream is closed instead.
  bool Outranked(StreamId stream, const std::string& who, std::uint64_t seen);
  /// Whether a peer brings a number of this term that was not issued here. If so, this dispatcher
  /// steps down, because two dispatchers took the same term. That happens if the store is emptied
  /// and both start within one second of the clock.
  bool ForeignNumber(const std::string& who, Number brought);

  Transition transition_;
  WorkerLists lists_;
  Sessions sessions_;
  ColumnWork columns_;
  PlanRequests plans_;
  JobRecords records_;
  Reports reports_;
  Fleet fleet_;
  Admission admission_;
  DesiredWorkers desired_workers_;
  HeartbeatRound heartbeats_;
  Status stepped_down_;
  std::uint64_t seen_term_ = 0;
};

}  // namespace millrace
