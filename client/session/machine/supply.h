// Handles what workers send to a session: batches and their copies, refusals, good-byes and
// failures. It also handles the leases that come and lapse with them.
//
// Not thread-safe: part of the session's state machine.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "client/session/machine/attach.h"
#include "client/session/machine/lease_book.h"
#include "client/session/machine/session_context.h"
#include "client/session/machine/session_times.h"
#include "client/session/machine/stats.h"
#include "client/session/machine/stock.h"
#include "client/session/machine/worker_book.h"

namespace millrace::client {

class Supply {
 public:
  /// While a worker owes batches, its want list is sent again this often, since a list may have
  /// been lost.
  static constexpr Duration kWantsEvery = std::chrono::seconds(1);
  static constexpr Duration kCloseUnused = std::chrono::seconds(10);

  Supply(SessionContext& context, const Attach& attach, Stock& stock, LeaseBook& leases,
         WorkerBook& workers)
      : context_(context), attach_(attach), stock_(stock), leases_(leases), workers_(workers) {}

  /// Returns true if at least one of the message's leases is held from now on. REQUIRES: the
  /// session is admitted.
  bool OnLeases(const v1::AttachResponse& message);
  /// Cuts every lease to the steps that it lacks now.
  void CutLeases();

  /// A part came; `data_bytes` is how many bytes of the batch its data stand for. Returns false if
  /// its batch is not wanted.
  bool OnPart(WorkerLink& link, const v1::BatchPart& part, std::uint64_t data_bytes, Time now);
  Verdict OnArrival(WorkerLink& link, const Arrival& arrival, Time now);
  void OnBad(WorkerLink& link, const Status& status, Time now);
  void OnClosed(WorkerLink& link, const Status& status, Time now);

  /// Gives up silent workers, closes unused streams, and forgets dead workers.
  void CheckTimes(Time now);
  void AddTimes(NextDue& next) const;
  /// This process stood still for `more`. That time does not count as silence of the workers.
  void StoodStill(Duration more, Time now);
  /// Closes the streams of all workers, since the session has ended with `why`.
  void CloseStreams(const Status& why);

  /// The worker of the step that the loop takes next. nullptr if no lease covers that step.
  const WorkerLink* NextWorker() const;
  /// The number of the last lease from the dispatcher; unset before the first lease.
  Number last_lease() const { return last_lease_; }
  void AddTo(SessionStats& stats) const;

 private:
  void Fail(WorkerLink& link, const Status& why, Time now);
  /// Like Fail, for a worker whose bytes may still lie in the network. Its next stream gets no
  /// credit at first.
  void FailSilent(WorkerLink& link, const std::string& why, Time now);
  void LapseOf(WorkerLink& link);
  /// Whether the worker says that no want list reaches it, though lists have been sent to it for a
  /// while.
  static bool DoesNotHear(const WorkerLink& link, const v1::Alive& alive, Time now);
  /// How many batches the worker has sent on this stream that have not come, though this part came
  /// after them. TCP loses nothing, but proxies between the hosts may.
  static std::uint64_t CountLost(const WorkerLink& link, const v1::BatchPart& part,
                                 std::uint64_t data_bytes);
  bool OnData(WorkerLink& link, const v1::BatchPart& part, std::uint64_t data_bytes);
  bool Wants(Position at) const;
  void OnRefused(WorkerLink& link, const v1::Refused& refused, Time now);
  /// The step of the batch that a worker says it cannot build; none if it says none of the lease.
  std::optional<std::uint64_t> StepOf(const v1::Refused& refused, const HeldLease& held) const;
  void OnGoingAway(WorkerLink& link, Time now);
  void Compare(std::uint64_t step, const Digest128& first, Number first_worker,
               const Digest128& second, Number second_worker);

  SessionContext& context_;
  const Attach& attach_;
  Stock& stock_;
  LeaseBook& leases_;
  WorkerBook& workers_;

  Number last_lease_;
  std::uint64_t lapsed_leases_ = 0;
  std::uint64_t duplicates_ = 0;
  std::uint64_t duplicate_mismatches_ = 0;
};

}  // namespace millrace::client
