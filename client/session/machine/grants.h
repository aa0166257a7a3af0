// Gives a session's workers credit (how many bytes they may send), and sends them want lists.
//
// Not thread-safe: part of the session's state machine.
#pragma once

#include <cstdint>
#include <optional>

#include "client/session/machine/ask_book.h"
#include "client/session/machine/attach.h"
#include "client/session/machine/dealing.h"
#include "client/session/machine/loop_pace.h"
#include "client/session/machine/session_context.h"
#include "client/session/machine/session_times.h"
#include "client/session/machine/stock.h"
#include "client/session/machine/worker_book.h"

namespace millrace::client {

class Grants {
 public:
  /// Want lists to one worker are at least this far apart, if somebody may wait for one or not.
  static constexpr Duration kUrgentWantsApart = std::chrono::milliseconds(5);
  static constexpr Duration kWantsApart = std::chrono::milliseconds(50);

  Grants(SessionContext& context, const Attach& attach, const Stock& stock, const LoopPace& pace,
         const AskBook& asks, const Dealing& dealing, WorkerBook& workers);

  // These functions REQUIRE that the session is admitted.
  /// Gives credit for what is asked, in order of need.
  void GiveCredit();
  /// The loop has reached another step. Its worker has to know, since it may send it without
  /// credit.
  void TellNext();
  void SendWantsWhereDue(Time now);

  /// When the next want list is due that waits for its time.
  void AddTimes(NextDue& next) const {
    if (due_) next.At(*due_);
  }

 private:
  static Duration WantsApart(const WorkerLink& link) {
    return link.stream.urgent ? kUrgentWantsApart : kWantsApart;
  }
  /// Gives credit for one more step of the worker, of `free` bytes. Returns how many of these are
  /// for steps that are no longer needed later.
  std::uint64_t GiveFor(WorkerLink& link, bool built, std::uint64_t free);
  v1::WantList MakeWants(const WorkerLink& link, Time now) const;
  /// The step from which on batches may be built, but not sent.
  std::uint64_t Until() const { return stock_.next() + stock_.window(); }

  SessionContext& context_;
  const Attach& attach_;
  const Stock& stock_;
  const LoopPace& pace_;
  const AskBook& asks_;
  const Dealing& dealing_;
  WorkerBook& workers_;

  std::optional<Time> due_;  // of the first want list that waits for its time
};

}  // namespace millrace::client
