// The facts that a dispatcher knows. They change only through Apply, one update at a time. So every
// change has a name, and a log of updates that is applied to empty facts gives the same facts
// again. The decisions are made in dispatcher_machine.h.
//
// Not thread-safe: it belongs to the event loop.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "server/dispatcher/machine/column_facts.h"
#include "server/dispatcher/machine/facts.h"
#include "server/dispatcher/machine/updates.h"

namespace millrace {

class DispatcherFacts {
 public:
  /// REQUIRES: everything that the update refers to exists.
  void Apply(const Update& update);

  std::uint64_t term() const { return term_; }
  Time booted() const { return booted_; }
  /// The number that NumberIssued issued last.
  Number last_number() const { return {term_, issued_}; }

  const std::map<std::string, v1::DatasetState>& datasets() const { return datasets_; }
  const std::map<StreamId, StreamFacts>& streams() const { return streams_; }
  const std::map<std::string, RequestedPlan>& plans() const { return plans_; }
  /// Columns that are being measured, by key.
  const std::map<std::string, ColumnFacts>& columns() const { return columns_; }
  const std::map<SessionId, SessionFacts>& sessions() const { return sessions_; }
  const std::map<WorkerId, Worker>& workers() const { return workers_; }
  /// Records that are on disk.
  const std::map<std::string, v1::JobRecord>& records() const { return records_; }
  const std::map<std::string, RecordWrite>& writes() const { return writes_; }
  /// How ranks of a job that have no session any more have ended, by RankOfJob.
  const std::map<std::string, v1::JobEnd>& EndsOf(const std::string& job) const;

  const StreamFacts* FindStream(StreamId id) const;
  const RequestedPlan* FindPlan(const std::string& key) const;
  const ColumnFacts* FindColumns(const std::string& key) const;
  const SessionFacts* FindSession(SessionId id) const;
  const SessionFacts* FindSessionByNonce(const std::string& nonce) const;
  /// The number of the ended session that had this nonce; unset if it is not remembered. Only the
  /// last kEndedKept ended sessions are remembered.
  SessionId EndedNumber(const std::string& nonce) const;
  const Worker* FindWorker(WorkerId id) const;
  const Worker* FindWorkerByNonce(const std::string& nonce) const;
  const v1::JobRecord* FindRecord(const std::string& job) const;
  /// The name of the peer that began the job, as long as the job has not ended; empty if names are
  /// not proved, or if there is no such job.
  std::string OwnerOf(const std::string& job) const;
  /// Whether a job's record is of an earlier term and says that the job is live.
  bool IsInherited(const std::string& job) const;
  /// Jobs that have sessions, live or waiting.
  std::size_t job_count() const { return job_sessions_.size(); }
  /// The numbers of a job's sessions, live and waiting, lowest first.
  const std::set<SessionId>& SessionsOf(const std::string& job) const;
  /// The numbers of a job's live sessions, lowest first.
  const std::set<SessionId>& LiveSessionsOf(const std::string& job) const;
  /// The numbers of the sessions, live and waiting, that have the job, rank and replica of `hello`.
  const std::set<SessionId>& SessionsOfRank(const v1::Hello& hello) const;
  /// An operator has ended the sessions of the job up to this number; unset if no operator has.
  Number TurnedOut(const std::string& job) const;
  /// Why a write of a record that is still to be repeated has failed; ok if there is no such write.
  Status StoreError() const;

  /// The main facts as text, to compare two states.
  std::string Dump() const;

 private:
  void On(const TermBegun& u);
  void On(const NumberIssued& u);
  void On(const TimeGranted& u);
  void On(const DatasetOpened& u);
  void On(const StreamOpened& u);
  void On(const StreamForgotten& u);
  void On(const PlanRequested& u);
  void On(const PlanReady& u);
  void On(const PlanPutOff& u);
  void On(const PlanForgotten& u);
  void On(const PlanLacks& u);
  void On(const PlanAsked& u);
  void On(const ColumnsWanted& u);
  void On(const RangesGiven& u);
  void On(const RangesTakenBack& u);
  void On(const RangeMeasured& u);
  void On(const MeasurerPaced& u);
  void On(const MeasurerFailed& u);
  void On(const ColumnsTold& u);
  void On(const ColumnsWhole& u);
  void On(const ColumnsForgotten& u);
  void On(const SessionOpened& u);
  void On(const SessionAttached& u);
  void On(const SessionHeard& u);
  void On(const SessionPlanned& u);
  void On(const SessionHeldUp& u);
  void On(const SessionTold& u);
  void On(const SessionAdmitted& u);
  void On(const SessionReported& u);
  void On(const SessionReportedEarly& u);
  void On(const ListNeeded& u);
  void On(const ListDoubled& u);
  void On(const ListSent& u);
  void On(const SessionEnded& u);
  void On(const JobTurnedOut& u);
  void On(const WorkerJoined& u);
  void On(const WorkerReported& u);
  void On(const WorkerDiffers& u);
  void On(const WorkerDrained& u);
  void On(const WorkerUndrained& u);
  void On(const WorkerLeft& u);
  void On(const RecordSent& u);
  void On(const RecordKept& u);
  void On(const RecordFailed& u);
  void On(const WriteForgotten& u);

  void Own(StreamId stream, SessionId owner);
  void Own(StreamId stream, WorkerId owner);

  std::uint64_t term_ = 0;
  std::uint64_t issued_ = 0;
  Time booted_;
  std::map<std::string, v1::DatasetState> datasets_;
  std::map<StreamId, StreamFacts> streams_;
  std::map<std::string, RequestedPlan> plans_;
  std::map<std::string, ColumnFacts> columns_;
  std::map<SessionId, SessionFacts> sessions_;
  std::map<WorkerId, Worker> workers_;
  std::map<std::string, v1::JobRecord> records_;
  std::set<std::string> inherited_;  // jobs whose records are of an earlier term
  std::map<std::string, RecordWrite> writes_;
  std::map<std::string, std::map<std::string, v1::JobEnd>> ends_;  // of jobs that have not ended
  std::map<std::string, Number> turned_out_;
  static constexpr std::size_t kEndedKept = 4096;
  std::map<std::string, SessionId> ended_by_nonce_;
  std::deque<std::string> ended_nonces_;  // oldest first
  // Indexes over the sessions and workers.
  std::map<std::string, SessionId> session_by_nonce_;
  std::map<std::string, WorkerId> worker_by_nonce_;
  std::map<std::string, std::set<SessionId>> job_sessions_;
  std::map<std::string, std::set<SessionId>> live_sessions_;  // by job
  std::map<std::string, std::set<SessionId>> rank_sessions_;  // by RankOfJob
};

}  // namespace millrace
