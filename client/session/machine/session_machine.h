// The consumer's state machine: events in, actions out, time passed in; no threads, no network.
// docs/protocol.md has its rules; the words are explained there.
//
// Every event is one call, after which TakeActions gives what is to be done about it, in order.
// Time never goes back between two calls. Tick is due at NextTick(), or earlier.
//
//   dispatcher  OnAttach...   Welcome, leases and pulses come; Hello and reports go
//   workers     OnBatches...  a stream each; parts come, want lists go
//   loop        OnTaken, SetWaiting, SetLoopHolds
//
// The loop takes step `next` when it is held: each step of the rank, in order, once. What is held
// and what may still come together fit the window, a number of batches that follows from
// prefetch_bytes and the mean size seen; the step `next` always has a place beyond it.
//
// Not thread-safe.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client/session/machine/lease_book.h"
#include "client/session/machine/rank_steps.h"
#include "client/session/machine/session_actions.h"
#include "client/session/machine/stats.h"
#include "client/session/machine/worker_book.h"
#include "common/base/log.h"
#include "common/base/time.h"

namespace millrace::client {

class SessionMachine {
 public:
  static constexpr Duration kSilence = std::chrono::seconds(3);
  static constexpr Duration kReportEvery = std::chrono::seconds(1);
  /// What a person should hear of where it lasts: waiting to attach, a dispatcher that is lost.
  static constexpr Duration kWarnAfter = std::chrono::seconds(5);
  static constexpr Duration kReportApart = std::chrono::milliseconds(250);
  static constexpr Duration kWantsApart = std::chrono::milliseconds(50);
  static constexpr Duration kGrantsApart = std::chrono::milliseconds(5);
  /// What a worker owes is asked for again: a want list may have been lost.
  static constexpr Duration kWantsEvery = std::chrono::seconds(1);
  static constexpr Duration kUrgentWantsApart = std::chrono::milliseconds(2);
  /// What a dispatcher has at least, from its Welcome to the lease of a step that lacks one.
  static constexpr Duration kWelcomeLeases = std::chrono::seconds(1);
  /// Between two leases that it gives itself where all its workers fail.
  static constexpr Duration kSelfLeasesApart = std::chrono::milliseconds(250);
  static constexpr Duration kLate = std::chrono::seconds(1);
  static constexpr Duration kCloseUnused = std::chrono::seconds(10);
  static constexpr std::uint64_t kLargestWindow = 4096;

  /// `random` gives numbers in [0, 1), for reconnecting.
  SessionMachine(SessionMachineOptions options, std::function<double()> random,
                 std::shared_ptr<Logger> logger);

  void Start(Time now);
  /// Says good-bye and closes everything; left() when that is done. The machine ends with `why`.
  void Leave(const Status& why, Time now);
  bool left() const { return leaving_ && attach_.stream == 0; }

  void OnAttachMessage(StreamId stream, const v1::AttachResponse& message, Time now);
  void OnAttachWritten(StreamId stream, Time now);
  void OnAttachClosed(StreamId stream, const Status& status, Time now);

  /// A part came, whose data are the adapter's business. False where its batch is not wanted, so
  /// that no memory should be spent on it.
  bool OnBatchesPart(StreamId stream, const v1::BatchPart& part, std::uint64_t data_bytes,
                     Time now);
  /// A whole batch came, and its digest is right.
  Verdict OnBatchesArrival(StreamId stream, const Arrival& arrival, Time now);
  /// What came is no batch; OutOfRange: one that is larger than batch_limit_bytes().
  void OnBatchesBad(StreamId stream, const Status& status, Time now);
  void OnBatchesWritten(StreamId stream, Time now);
  void OnBatchesClosed(StreamId stream, const Status& status, Time now);

  /// The loop takes step next(). REQUIRES: holds(next()).
  void OnTaken(Time now);
  /// The loop waits for next(), or no longer does.
  void SetWaiting(bool waiting, Time now);
  /// Batches that the loop has taken and not let go of.
  void SetLoopHolds(std::uint64_t batches, Time now);

  void Tick(Time now);
  Time NextTick() const;
  std::vector<Action> TakeActions();

  /// As the dispatcher numbered it; unset before its first word.
  Number session() const { return session_; }
  /// What the loop waits for, as of the last event.
  WaitCause cause() const { return cause_; }
  /// Not ok: the session has ended with this, for every waiter.
  const Status& status() const { return status_; }
  const std::optional<Admission>& admission() const { return admission_; }
  /// Why the dispatcher lets the session wait.
  const std::string& waiting_why() const { return waiting_why_; }
  /// REQUIRES of all below: admission().
  const RankSteps& steps() const { return *steps_; }
  std::uint64_t next() const { return next_; }
  bool holds(std::uint64_t step) const { return held_.count(step) != 0; }
  /// Batches that may be held or under way together.
  std::uint64_t window() const;
  /// Batches from next() on that should be leased: leases cost no memory, and where the window is
  /// small the loop would else wait for the next report.
  std::uint64_t lease_window() const;
  std::uint64_t held_batches() const { return held_.size(); }
  std::uint64_t held_bytes() const { return held_bytes_; }
  std::uint64_t largest_bytes() const { return largest_bytes_; }
  const LeaseBook& leases() const { return leases_; }
  const WorkerBook& workers() const { return workers_; }
  std::uint64_t highest_term() const { return highest_term_; }
  /// No batch may be larger: what a receiver checks before it takes memory.
  std::uint64_t batch_limit_bytes() const;

  SessionStats stats(Time now) const;
  /// All of the above and what is known of each worker, for people who look for a fault. Times are
  /// seconds before the last event.
  std::string Dump() const;

 private:
  struct Attach {
    StreamId stream = 0;
    bool writing = false;
    bool heard_any = false;
    bool bye_sent = false;
    Time heard;
    Time opened;
    Time retry_at;
    Duration pause{0};  // before it was opened
    int failures = 0;   // in a row, of streams that did not last
    Time lost;          // the first of them
    bool lost_long = false;
    std::size_t address = 0;  // of addresses_: the one that is tried, or has the stream
  };
  struct Held {
    Digest128 digest;
    std::uint64_t bytes = 0;
    std::uint32_t examples = 0;
    std::vector<DropReason> dropped;
    bool in_place = false;
    Number worker;
  };
  struct Past {
    std::uint64_t step = 0;
    Digest128 digest;
    Number worker;
  };

  // session_machine.cc: events, the dispatcher's stream
  void Enter(Time now);
  void Settle(Time now);
  void End(Status status);
  void Connect(Time now);
  const std::string& address() const { return addresses_[attach_.address]; }
  void Disconnect(const Status& why, Time now);
  void OnWelcome(const v1::Welcome& welcome, Time now);
  void OnLeases(const v1::AttachResponse& message);
  void CheckTimes(Time now);
  void Compare(std::uint64_t step, const Digest128& first, Number first_worker,
               const Digest128& second, Number second_worker);

  // session_wants.cc: the workers' streams, room and credit
  void FailWorker(WorkerLink& link, const Status& why, Time now);
  /// The same, where bytes may still lie in the network: its next stream gets no credit at first.
  void FailSilent(WorkerLink& link, const std::string& why, Time now);
  void LapseOf(WorkerLink& link);
  void GiveRoom();
  void GiveCredit();
  void OpenStreams(Time now);
  void SendWantsWhereDue(Time now);
  /// Follows every lease to what it lacks now.
  void CutLeases();
  bool GrantsDue(Time now) const;
  static bool RunsOut(const WorkerLink& link);
  void MarkStale(bool urgent);
  Duration WantsApart(const WorkerLink& link) const;
  bool WantsDue(const WorkerLink& link, Time now) const;
  /// Want lists have been sent for a while, and none comes to the worker, which says so.
  static bool DoesNotHear(const WorkerLink& link, const v1::Alive& alive, Time now);
  bool OnData(WorkerLink& link, const v1::BatchPart& part, std::uint64_t data_bytes);
  bool Wants(Position at) const;
  void OnRefused(WorkerLink& link, const v1::Refused& refused, Time now);
  void OnGoingAway(WorkerLink& link, Time now);
  double MeanBytes() const;
  v1::WantList MakeWants(const WorkerLink& link);
  std::uint64_t WantedSlots() const;

  // session_self_leases.cc: without a dispatcher
  void LeaseToItself(Time now);
  void AddSelfLease(WorkerLink& link, std::uint64_t first, std::uint32_t batches, Time now);
  std::uint64_t LackedOf(Number worker) const;

  // session_report.cc: what the dispatcher and the user are told
  void SendReportWhereDue(Time now);
  bool ReportDue(Time now) const;
  /// What the last report asked leases for is less than half of what is wanted now.
  bool LeasesRunShort() const;
  v1::Report MakeReport(Time now) const;
  WaitCause FindCause() const;
  const WorkerLink* NextWorker() const;

  SessionMachineOptions options_;
  const std::vector<std::string> addresses_;  // of dispatchers
  std::function<double()> random_;
  std::shared_ptr<Logger> logger_;
  std::vector<Action> actions_;
  StreamId last_stream_ = 0;
  Status status_;
  bool leaving_ = false;
  Time started_;
  Time now_;

  Attach attach_;
  Status last_attach_error_;
  bool report_stale_ = true;
  // Room, credit and open streams follow what changed: at once where a worker or a lease came or
  // went, else when a worker has little left to do, or a little later for many batches together.
  bool grants_stale_ = true;
  bool grants_due_ = true;
  Time granted_;
  Time reported_;
  std::uint64_t reported_next_ = 0;
  std::uint64_t asked_until_ = 0;            // the end of the last report's window
  std::uint64_t taken_between_reports_ = 0;  // of the last two
  std::uint64_t highest_term_ = 0;
  Number session_;
  std::string waiting_why_;
  Time waiting_why_since_;
  Time waiting_began_;
  std::string waiting_why_said_;  // in the log
  LogLevel waiting_said_at_ = LogLevel::kInfo;
  std::optional<Admission> admission_;
  std::optional<RankSteps> steps_;

  LeaseBook leases_;
  Number last_lease_;
  Time dispatcher_heard_;                // its last word, on any stream
  std::optional<Time> uncovered_since_;  // a step of the window that no lease covers
  bool self_leasing_ = false;            // until the dispatcher's next Welcome or lease
  Time self_leased_;
  WorkerBook workers_;

  std::uint64_t next_ = 0;
  std::map<std::uint64_t, Held> held_;  // by step
  std::uint64_t held_bytes_ = 0;
  std::deque<Past> past_;  // the last steps taken, for comparison with late copies
  double mean_bytes_ = 0;
  std::uint64_t largest_bytes_ = 0;
  std::uint64_t arrived_ = 0;
  std::uint64_t loop_holds_ = 0;

  bool waiting_ = false;
  Time waiting_since_;  // for the present step
  WaitCause cause_ = WaitCause::kNone;
  Time cause_since_;
  SessionStats stats_;
};

}  // namespace millrace::client
