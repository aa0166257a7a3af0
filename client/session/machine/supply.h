// Handles what workers send to a session: their words, batches and copies of them, refusals,
// good-byes and failures. Steps that were asked of a failed worker are free again.
//
// Not thread-safe: part of the session's state machine.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "client/session/machine/ask_book.h"
#include "client/session/machine/attach.h"
#include "client/session/machine/dealing.h"
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
  /// How often dead workers are forgotten; there may be a thousand.
  static constexpr Duration kForgetEvery = std::chrono::seconds(10);

  Supply(SessionContext& context, const Attach& attach, Stock& stock, AskBook& asks,
         WorkerBook& workers, Dealing& dealing)
      : context_(context),
        attach_(attach),
        stock_(stock),
        asks_(asks),
        workers_(workers),
        dealing_(dealing) {}

  /// A fragment came; `data_bytes` is how many bytes of the batch its data hold. Returns false if
  /// its batch is not wanted.
  bool OnFragment(WorkerLink& link, const v1::BatchFragment& fragment, std::uint64_t data_bytes,
                  Time now);
  Verdict OnArrival(WorkerLink& link, const Arrival& arrival, Time now);
  void OnBad(WorkerLink& link, const Status& status, Time now);
  void OnClosed(WorkerLink& link, const Status& status, Time now);

  /// Gives up silent workers, and forgets dead ones.
  void CheckTimes(Time now);
  void AddTimes(NextDue& next) const;
  /// This process stood still for `more`. That time does not count as silence of the workers.
  void StoodStill(Duration more, Time now);
  /// Closes the streams of all workers, since the session has ended with `why`.
  void CloseStreams(const Status& why);

  /// The worker from which the step that the loop takes next is expected first. nullptr if no
  /// worker is asked for it.
  const WorkerLink* NextWorker() const;
  /// The build of that step, as that worker reports it; nullptr if it reports none.
  const WorkerWord::Build* NextBuild() const;
  /// Whether some worker has built that step, so that it is on its way.
  bool NextIsBuilt() const;
  /// Whether workers of the list are being connected, and no worker has spoken yet.
  bool Connects() const;
  /// The ask that the last batch has answered; unset if it was not asked of its worker.
  const std::optional<Ask>& answered() const { return answered_; }
  void AddTo(SessionStats& stats) const;

 private:
  void Fail(WorkerLink& link, const Status& why, Time now);
  /// Like Fail, for a worker whose bytes may still be in the network. Its next stream gets no
  /// credit at first.
  void FailSilent(WorkerLink& link, const std::string& why, Time now);
  void OnAlive(WorkerLink& link, const v1::Alive& alive, Time now);
  void MarkMoved();
  /// Whether the worker says that no want list reaches it, though lists have been sent to it for a
  /// while.
  static bool DoesNotHear(const WorkerLink& link, const v1::Alive& alive, Time now);
  /// How many batches the worker has sent on this stream that have not come, though this fragment
  /// came after them. TCP loses nothing, but proxies between the hosts may.
  static std::uint64_t CountLost(const WorkerLink& link, const v1::BatchFragment& fragment,
                                 std::uint64_t data_bytes);
  bool OnData(WorkerLink& link, const v1::BatchFragment& fragment, std::uint64_t data_bytes);
  bool Wants(Position at) const;
  /// The steps of runs that a worker names, as far as they are ahead of the loop and within reach.
  std::set<std::uint64_t> StepsOf(const google::protobuf::RepeatedPtrField<v1::Run>& runs) const;
  void OnRefused(WorkerLink& link, const v1::Refused& refused, Time now);
  void OnKept(std::uint64_t step, const WorkerLink& from);
  void RefuseAll(WorkerLink& link, const Status& why, Time now);
  void OnGoingAway(WorkerLink& link);
  void Compare(std::uint64_t step, const Digest128& first, WorkerId first_worker,
               const Digest128& second, WorkerId second_worker);

  SessionContext& context_;
  const Attach& attach_;
  Stock& stock_;
  AskBook& asks_;
  WorkerBook& workers_;
  Dealing& dealing_;

  std::optional<Ask> answered_;
  Time forgot_;  // when dead workers were last forgotten
  std::uint64_t moved_failed_ = 0;
  std::uint64_t moved_drained_ = 0;
  std::uint64_t moved_refused_ = 0;
  std::uint64_t duplicates_ = 0;
  std::uint64_t duplicate_mismatches_ = 0;
};

}  // namespace millrace::client
