// The consumer's state machine. It takes events and the time, and returns actions. It has no
// threads and no network. docs/internals/protocol.md has its rules and explains the words.
//
// Every event is one call. After it, TakeActions returns the actions that follow from it, in order.
// Time never goes back between two calls. The caller calls Tick at NextTick(), or earlier.
//
//   dispatcher  OnAttach...   Welcome, lists and heartbeats come; Hello and reports go
//   workers     OnBatches...  one stream for each worker: fragments come, want lists go
//   loop        OnTaken, SetWaiting, SetLoopHolds
//
// The loop takes step `next` when it is held. So it takes each step of the rank once, in order. The
// batches that are here and those that may come fit prefetch_bytes together. The step `next` always
// has a place beyond prefetch_bytes.
//
// The dispatcher says which workers may build for the session (the list), and the session decides
// which of them builds which step. So it goes on without a dispatcher.
//
// The machine passes each event to the component that it concerns, and then does what follows from
// it. The components are:
//
//   attach       the dispatcher's stream
//   list         the members, as dispatchers name them; worker_book has what is known of each
//   stock        what is held for the loop, and how much more may come
//   dealing      which worker is asked for which step; ask_book has the asks
//   streams      to which workers there are streams
//   supply       what workers send
//   grants       credit and want lists for workers
//   pace, waits  when the loop needs a step, and what it waits for
// report       the reports to the dispatcher and the user
//
// Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client/session/machine/ask_book.h"
#include "client/session/machine/attach.h"
#include "client/session/machine/dealing.h"
#include "client/session/machine/grants.h"
#include "client/session/machine/loop_pace.h"
#include "client/session/machine/rank_steps.h"
#include "client/session/machine/session_actions.h"
#include "client/session/machine/session_context.h"
#include "client/session/machine/session_report.h"
#include "client/session/machine/session_tuning.h"
#include "client/session/machine/stats.h"
#include "client/session/machine/stock.h"
#include "client/session/machine/streams.h"
#include "client/session/machine/supply.h"
#include "client/session/machine/waits.h"
#include "client/session/machine/worker_book.h"
#include "client/session/machine/worker_list.h"
#include "common/base/log.h"
#include "common/base/time.h"

namespace millrace::client {

class SessionMachine {
 public:
  /// `random` returns numbers in [0, 1), which spread the pauses before reconnecting.
  SessionMachine(SessionMachineOptions options, std::function<double()> random,
                 std::shared_ptr<Logger> logger);
  // It cannot be copied, because its components refer to each other.
  SessionMachine(const SessionMachine&) = delete;
  SessionMachine& operator=(const SessionMachine&) = delete;

  void Start(Time now);
  /// Says good-bye and closes all streams; when that is done, left() is true. The session ends with
  /// `why`, unless it has ended already.
  void Leave(const Status& why, Time now);
  bool left() const { return leaving_ && !attach_.has_stream(); }

  void OnAttachMessage(StreamId stream, const v1::AttachResponse& message, Time now);
  void OnAttachWritten(StreamId stream, Time now);
  void OnAttachClosed(StreamId stream, const Status& status, Time now);

  /// A fragment came. The adapter has its data, and the machine does not need them. Returns false
  /// if the batch is not wanted, so that the adapter spends no memory on it.
  bool OnBatchesFragment(StreamId stream, const v1::BatchFragment& fragment,
                         std::uint64_t data_bytes, Time now);
  /// A whole batch came, and its digest is right.
  Verdict OnBatchesArrival(StreamId stream, const Arrival& arrival, Time now);
  /// The data that came are no valid batch. OutOfRange: the batch is larger than
  /// batch_limit_bytes().
  void OnBatchesBad(StreamId stream, const Status& status, Time now);
  void OnBatchesWritten(StreamId stream, Time now);
  void OnBatchesClosed(StreamId stream, const Status& status, Time now);

  /// The loop asks for step next(). SetWaiting and OnTaken imply it.
  void OnLoopAsks(Time now);
  /// The loop takes step next(). REQUIRES: holds(next()).
  void OnTaken(Time now);
  /// The loop waits for next(), or no longer does.
  void SetWaiting(bool waiting, Time now);
  /// The number of batches that the loop has taken and not dropped yet.
  void SetLoopHolds(std::uint64_t batches, Time now);

  void Tick(Time now);
  Time NextTick() const;
  std::vector<Action> TakeActions();

  /// The session's number, which the dispatcher gives. Unset until the first Waiting or Welcome.
  SessionId session() const { return attach_.session(); }
  /// The cause for which the loop waits, as of the last event.
  WaitCause cause() const { return waits_.cause(); }
  /// If this is not ok, the session has ended with it, for everybody who waits.
  const Status& status() const { return status_; }
  const std::optional<Admission>& admission() const { return attach_.admission(); }
  /// Why the dispatcher lets the session wait; empty if it does not wait.
  const std::string& waiting_why() const { return attach_.waiting_why(); }
  /// The functions from here to largest_bytes() REQUIRE admission().
  const RankSteps& steps() const { return attach_.steps(); }
  std::uint64_t next() const { return stock_.next(); }
  bool holds(std::uint64_t step) const { return stock_.holds(step); }
  /// The number of batches from next() on that may be here or on their way together.
  std::uint64_t window() const { return stock_.window(); }
  std::uint64_t held_batches() const { return stock_.held_batches(); }
  std::uint64_t held_bytes() const { return stock_.held_bytes(); }
  std::uint64_t largest_bytes() const { return stock_.largest_bytes(); }
  const AskBook& asks() const { return asks_; }
  /// Whether a free step within reach finds no slot at any worker.
  bool wants_more() const { return dealing_.wants_more(); }
  /// The ask that the last batch has answered; unset if it was not asked of its worker.
  const std::optional<Ask>& answered() const { return supply_.answered(); }
  const WorkerBook& workers() const { return workers_; }
  std::uint64_t highest_term() const { return attach_.highest_term(); }
  /// No batch may be larger than this. A receiver checks it before it takes memory.
  std::uint64_t batch_limit_bytes() const { return stock_.batch_limit_bytes(); }

  SessionStats stats(Time now) const { return report_.Stats(now); }
  /// The whole state, with the facts about each worker, as text for people who look for a fault.
  /// Times are given as seconds before the last event.
  std::string Dump() const;

 private:
  /// Every event begins with Enter and ends with Reconcile. Reconcile does what follows from the
  /// event.
  void Enter(Time now);
  void Reconcile(Time now);
  void LoopAsks(Time now);
  /// Ends the session with `status`, unless it has ended already.
  void End(const Status& status);
  void CheckTimes(Time now);
  void CheckWorkers(Time now);
  /// An error once the loop has waited for the next batch as long as it may.
  Status CheckReadTime(Time now) const;
  void SendReportWhereDue(Time now);
  void TakeList(const v1::AttachResponse& message, Time now);
  /// The members of the list have changed.
  void UseMembers();
  /// Deals steps, opens streams and gives credit if that is due, and notifies the workers.
  void Provide(Time now);
  /// When Provide deals again, if nobody waits.
  Time ProvideDue() const;
  /// Returns nullopt before the session is admitted.
  std::optional<v1::Report> MakeReport(Time now) const;
  /// Adds how the session is tuned if the dispatcher does not know it.
  void AddTuning(std::optional<v1::Report>& report, Time now);

  SessionContext context_;
  Status status_;
  bool leaving_ = false;
  Time now_;

  AskBook asks_;
  WorkerBook workers_;
  WorkerList list_;
  LoopPace pace_;
  Attach attach_;
  Stock stock_;
  Dealing dealing_;
  Streams streams_;
  Supply supply_;
  Waits waits_;
  Grants grants_;
  Time provided_;
  Time credited_;
  bool said_asks_ = false;  // that a step finds no slot
  Time check_at_;           // when silences, unused streams and retries have to be checked
  SessionTuning tuning_;
  std::uint64_t tuning_told_ = 0;  // SessionTuning::changes() as the dispatcher knows them
  const SessionReport report_;
};

}  // namespace millrace::client
