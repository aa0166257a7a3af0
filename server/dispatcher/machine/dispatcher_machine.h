// The dispatcher: admits sessions to jobs, keeps their windows covered with leases, and tells
// workers which plans to keep. docs/protocol.md has the rules.
//
// One single-threaded state machine: events in, actions out. It reads no clock and touches no
// network, disk or thread, so that a simulator can run it through thousands of histories. Every
// event brings the time; every change of its facts is an Update (updates.h). Events come
// in the order of time, and those of a stream between its opening and its close; events of streams
// that it does not know, or has closed, are ignored.
//
//   consumer ── Hello ──▶ OnAttach ─▶ CompilePlan ─▶ OnPlanCompiled ─▶ CommitRecord
//            ◀─ Welcome ──────────── Settle (the job) ◀──────────────── OnRecordCommitted
//            ── Report ─▶ OnAttach ─▶ Fill ─▶ SendAttach (leases)
//
// Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/dispatcher/machine/actions.h"
#include "server/dispatcher/machine/dispatcher_facts.h"
#include "server/dispatcher/machine/dispatcher_options.h"
#include "server/dispatcher/machine/worker_choice.h"

namespace millrace {

/// When something happens.
struct Moment {
  Time time;
  std::int64_t unix_seconds = 0;  // for job records only
};

class DispatcherMachine {
 public:
  /// A dispatcher of a term that its store has committed, with the records that the store holds.
  /// `watch`, if set, sees every update before it is applied.
  DispatcherMachine(const DispatcherOptions& options, std::uint64_t term,
                    std::vector<v1::JobRecord> records, Moment now,
                    std::function<void(const Update&)> watch = nullptr);

  // --- Events ---
  /// A dataset of this host is open, with its file list, or cannot be.
  Actions OnDataset(const std::string& id, const v1::DatasetState& dataset, Moment now);
  Actions OnStreamOpened(StreamId stream, bool of_worker, Moment now);
  Actions OnStreamClosed(StreamId stream, Moment now);
  Actions OnAttach(StreamId stream, v1::AttachRequest request, Moment now);
  Actions OnWork(StreamId stream, v1::WorkRequest request, Moment now);
  Actions OnTick(Moment now);
  Actions OnPlanCompiled(const std::string& key, Result<std::shared_ptr<const PlanFacts>> plan,
                         Moment now);
  Actions OnRecordCommitted(const v1::JobRecord& record, const Status& status, Moment now);

  // --- Requests of operators; what they cause is added to `actions`. Unavailable from one that has
  // stepped down. ---
  /// NotFound, naming the workers there are; FailedPrecondition where several have the name.
  Result<v1::DrainWorkerResponse> DrainWorker(const v1::DrainWorkerRequest& request, Moment now,
                                              Actions& actions);
  /// NotFound, naming the jobs there are.
  Result<v1::EndJobResponse> EndJob(const v1::EndJobRequest& request, Moment now, Actions& actions);

  const DispatcherFacts& facts() const { return facts_; }
  /// Not ok: a dispatcher of a higher term exists; this one serves nobody any more.
  const Status& stepped_down() const { return stepped_down_; }
  /// The term of that other one; 0 where only the store has said that there is one.
  std::uint64_t seen_term() const { return seen_term_; }

  /// Why no worker can be leased to for this session now; empty where one can.
  std::string NoWorkerWhy(const SessionFacts& session) const;

 private:
  // dispatcher.cc: frame, streams, time
  void Begin(Moment now);
  Actions End();
  void Apply(const Update& update);
  Number NewNumber();
  void Log(LogLevel level, std::string event,
           std::vector<std::pair<std::string, std::string>> fields);
  void Close(StreamId stream, const Status& status);
  void StepDown(const std::string& why, std::uint64_t seen = 0);
  /// Whether a peer has seen a higher term than this one's: then this dispatcher's is over, or,
  /// where no clock can have given that term, the peer's stream.
  bool Outranked(StreamId stream, const std::string& who, std::uint64_t seen);
  /// Whether a peer brings a number of this term that was not issued here. Its store was emptied
  /// within a second of the clock, so that two dispatchers took one term: this one's is over then.
  bool ForeignNumber(const std::string& who, Number brought);
  void Pulse();

  // admission.cc: from Hello to Welcome
  void Greet(StreamId stream, const v1::Hello& hello);
  /// Whether there is room for one more session.
  Status CheckLimits(const v1::Hello& hello) const;
  bool RequestPlan(const std::string& key, const v1::PipelineText& pipeline);
  void TendPlans();
  /// Plans that no session needs, over another state of the dataset: who asks for them again means
  /// the new one.
  void ForgetOlderPlans(const std::string& dataset, const std::string& digest);
  bool PlanSession(Number id);
  /// Brings a job to where its sessions want it: lets them in, lets them wait, writes its record.
  void Settle(const std::string& job);
  /// REQUIRES: the session has its plan.
  void SettleSession(Number id);
  void Welcome(Number id);
  void Wait(Number id, const std::string& why);
  void Fail(Number id, const Status& status);
  void EndSession(Number id);
  void SendWelcome(Number id);
  /// Whether other ranks of the job are live.
  bool OthersLive(const SessionFacts& session) const;
  const SessionFacts* HigherRival(const SessionFacts& session) const;
  /// A live session of the job that `session` cannot join.
  const SessionFacts* Holder(const SessionFacts& session) const;
  std::string_view KnownCanonical(const std::string& cursor) const;

  // job_records.cc: what is on disk of a job
  bool RecordOnDisk(const SessionFacts& session) const;
  /// Writes the record of a job that `session` begins, or says why that has to wait.
  std::string WriteRecord(const SessionFacts& session);
  /// Of a job without sessions. Where nothing of it may be on disk, a write that failed is
  /// forgotten.
  void WriteEnd(const std::string& job);
  /// Whether sessions of an earlier term may still return to the job.
  bool MayComeBack(const std::string& job) const;
  bool MayWrite(const std::string& job) const;

  // leasing.cc: reports and leases
  void Hear(Number id, v1::Report report);
  /// A lease whose consumer waits while its worker lives goes to an idle worker as well: one at a
  /// time for a session. REQUIRES: the session has reported.
  void CopyLate(Number id);
  /// Grants a lease of the first at most `batches` steps of `run`, which are removed from it.
  void AddLease(Number id, const Worker& worker, std::uint32_t batches, bool copy, StepRun& run,
                v1::AttachResponse& response);
  void Fill(Number id);
  void FillAll();
  /// Not ok where no worker is left that can serve the session; see CheckProspects.
  Status CheckHope(const SessionFacts& session, bool has_workers) const;
  /// Ends all live sessions of the session's job.
  void FailJob(Number id, const Status& status);
  std::string WhyNot(const Worker& worker, const SessionFacts& session) const;
  void AddWorkers(const SessionFacts& session, v1::Welcome& welcome) const;

  // work.cc: workers
  Result<Number> RecogniseWorker(const v1::WorkRequest& request);
  void CompareFiles(Number id, const v1::WorkRequest& request);
  v1::WorkResponse ResponseTo(const Worker& worker) const;
  /// Whether a response only repeats what the worker reports itself.
  static bool SaysNothingNew(const Worker& worker, const v1::WorkResponse& response);
  void Respond(const Worker& worker);
  /// A plan of a job that may still run from before the dispatcher's start, until it is compiled
  /// here.
  void KeepUnknownPlans(const Worker& worker, std::set<std::string>& told,
                        v1::WorkResponse& response) const;
  void RespondAll();
  void DropWorker(Number id);

  const DispatcherOptions options_;
  DispatcherFacts facts_;
  std::function<void(const Update&)> watch_;
  std::mt19937_64 random_;
  mutable WorkerSets worker_sets_;  // what follows from the facts, kept
  Moment now_;
  Time next_pulse_;
  bool booted_jobs_checked_ = false;
  Status stepped_down_;
  std::uint64_t seen_term_ = 0;
  bool plans_changed_ = false;       // workers have to be told
  std::set<std::string> unsettled_;  // jobs to look at before the event ends
  Actions actions_;
};

}  // namespace millrace
