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
//            ◀─ Welcome ───────── Admission::Settle ◀──────────────── OnRecordCommitted
//            ── Report ─▶ OnAttach ─▶ Leasing::Hear ─▶ SendAttach (leases)
//
// Its parts decide: Admission from Hello to Welcome, PlanRequests and JobRecords for it; Leasing of
// reports; Fleet of workers; Sessions what consumers are told. They share a Transition. What is
// left here is what comes before them: streams, terms and time.
//
// Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "server/dispatcher/machine/admission.h"
#include "server/dispatcher/machine/fleet.h"
#include "server/dispatcher/machine/job_records.h"
#include "server/dispatcher/machine/leasing.h"
#include "server/dispatcher/machine/plan_requests.h"
#include "server/dispatcher/machine/sessions.h"
#include "server/dispatcher/machine/transition.h"

namespace millrace {

class DispatcherMachine {
 public:
  /// A dispatcher of a term that its store has committed, with the records that the store holds.
  /// `watch`, if set, sees every update before it is applied.
  DispatcherMachine(const DispatcherOptions& options, std::uint64_t term,
                    std::vector<v1::JobRecord> records, Moment now,
                    const std::function<void(const Update&)>& watch = nullptr);
  DispatcherMachine(const DispatcherMachine&) = delete;
  DispatcherMachine& operator=(const DispatcherMachine&) = delete;

  // --- Events ---
  /// A dataset of this host is open, with its file list, or cannot be.
  Actions OnDataset(const std::string& id, const v1::DatasetState& dataset, Moment now);
  Actions OnStreamOpened(StreamId stream, bool of_worker, Moment now);
  Actions OnStreamClosed(StreamId stream, Moment now);
  Actions OnAttach(StreamId stream, v1::AttachRequest request, Moment now);
  Actions OnWork(StreamId stream, const v1::WorkRequest& request, Moment now);
  Actions OnTick(Moment now);
  Actions OnPlanCompiled(const std::string& key,
                         const Result<std::shared_ptr<const PlanFacts>>& plan, Moment now);
  Actions OnRecordCommitted(const v1::JobRecord& record, const Status& status, Moment now);

  // --- Requests of operators; what they cause is added to `actions`. Unavailable from one that has
  // stepped down. ---
  /// NotFound, naming the workers there are; FailedPrecondition where several have the name.
  Result<v1::DrainWorkerResponse> DrainWorker(const v1::DrainWorkerRequest& request, Moment now,
                                              Actions& actions);
  /// NotFound, naming the jobs there are.
  Result<v1::EndJobResponse> EndJob(const v1::EndJobRequest& request, Moment now, Actions& actions);

  const DispatcherFacts& facts() const { return transition_.facts(); }
  /// Not ok: a dispatcher of a higher term exists; this one serves nobody any more.
  const Status& stepped_down() const { return stepped_down_; }
  /// The term of that other one; 0 where only the store has said that there is one.
  std::uint64_t seen_term() const { return seen_term_; }

  /// Why no worker can be leased to for this session now; empty where one can.
  std::string NoWorkerWhy(const SessionFacts& session) const {
    return leasing_.NoWorkerWhy(session);
  }

 private:
  /// Closes what the event has opened: settles jobs and tells workers.
  Actions End();
  void Hear(StreamId stream, v1::AttachRequest request);
  void Greet(StreamId stream, const v1::Hello& hello);
  void HearWorker(StreamId stream, const v1::WorkRequest& request);
  /// Streams whose first message does not come.
  void CloseMute();

  void StepDown(const std::string& why, std::uint64_t seen = 0);
  /// Whether a peer has seen a higher term than this one's: then this dispatcher's is over, or,
  /// where no clock can have given that term, the peer's stream.
  bool Outranked(StreamId stream, const std::string& who, std::uint64_t seen);
  /// Whether a peer brings a number of this term that was not issued here. Its store was emptied
  /// within a second of the clock, so that two dispatchers took one term: this one's is over then.
  bool ForeignNumber(const std::string& who, Number brought);

  Transition transition_;
  Sessions sessions_;
  PlanRequests plans_;
  JobRecords records_;
  Leasing leasing_;
  Fleet fleet_;
  Admission admission_;
  Time next_pulse_;
  Status stepped_down_;
  std::uint64_t seen_term_ = 0;
};

}  // namespace millrace
