// Grants a session's workers streams, room (how many batches they may build) and credit (how many
// bytes they may send). Want lists tell the workers about room and credit.
//
// When a worker or a lease came or went, grants follow at once. After other changes they follow
// when a worker has little left to do, or after kGrantsApart, so that one grant covers many
// batches.
//
// Not thread-safe: part of the session's state machine.
#pragma once

#include "client/session/machine/attach.h"
#include "client/session/machine/lease_book.h"
#include "client/session/machine/session_context.h"
#include "client/session/machine/session_times.h"
#include "client/session/machine/stock.h"
#include "client/session/machine/supply.h"
#include "client/session/machine/waits.h"
#include "client/session/machine/worker_book.h"

namespace millrace::client {

class Grants {
 public:
  static constexpr Duration kWantsApart = std::chrono::milliseconds(50);
  static constexpr Duration kGrantsApart = std::chrono::milliseconds(5);
  static constexpr Duration kUrgentWantsApart = std::chrono::milliseconds(2);

  Grants(SessionContext& context, const Attach& attach, const Stock& stock, const Supply& supply,
         const Waits& waits, LeaseBook& leases, WorkerBook& workers);

  // These three functions REQUIRE that the session is admitted.
  bool Due(Time now) const;
  /// Grants room, streams and credit for every lease that lacks steps.
  void Give(Time now);
  void SendWantsWhereDue(Time now);

  void AddTimes(NextDue& next) const;

 private:
  void GiveRoom();
  void GiveCredit();
  void OpenStreams(Time now);
  static bool RunsOut(const WorkerLink& link);
  Duration WantsApart(const WorkerLink& link) const;
  bool WantsDue(const WorkerLink& link, Time now) const;
  v1::WantList MakeWants(const WorkerLink& link);

  SessionContext& context_;
  const Attach& attach_;
  const Stock& stock_;
  const Supply& supply_;
  const Waits& waits_;
  LeaseBook& leases_;
  WorkerBook& workers_;

  Time granted_;
};

}  // namespace millrace::client
