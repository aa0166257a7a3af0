// A consumer without a dispatcher: where part of its window has had no lease for 3 s, or has none
// and no word has come of a dispatcher for 3 s, it leases that to itself, from the workers it
// knows. Batches are pure, and a running trainer needs no dispatcher.
//
// Such leases are of term 0 and lie outside `last_lease`; reports name them as held, so that a
// dispatcher that comes back leases nothing of them again. Its first word ends it.
//
// Not thread-safe: part of the session's state machine.
#pragma once

#include <cstdint>
#include <optional>

#include "client/session/machine/attach.h"
#include "client/session/machine/lease_book.h"
#include "client/session/machine/session_context.h"
#include "client/session/machine/session_times.h"
#include "client/session/machine/stats.h"
#include "client/session/machine/stock.h"
#include "client/session/machine/worker_book.h"

namespace millrace::client {

class SelfLeases {
 public:
  /// What a dispatcher has at least, from its Welcome to the lease of a step that lacks one.
  static constexpr Duration kWelcomeLeases = std::chrono::seconds(1);
  /// Between two leases that it gives itself where all its workers fail.
  static constexpr Duration kSelfLeasesApart = std::chrono::milliseconds(250);

  SelfLeases(SessionContext& context, const Attach& attach, const Stock& stock, LeaseBook& leases,
             WorkerBook& workers)
      : context_(context), attach_(attach), stock_(stock), leases_(leases), workers_(workers) {}

  void OnWelcome(Time now);
  /// A lease of the dispatcher came.
  void OnLeased();
  /// Leases to itself where that is due. REQUIRES: the session is admitted.
  void LeaseToItself(Time now);
  void AddTimes(NextDue& next) const;
  /// Until the dispatcher's next Welcome or lease.
  bool self_leasing() const { return self_leasing_; }
  void AddTo(SessionStats& stats) const { stats.self_leases = given_; }

 private:
  void Add(WorkerLink& link, std::uint64_t first, std::uint32_t batches, Time now);
  std::uint64_t LackedOf(Number worker) const;

  SessionContext& context_;
  const Attach& attach_;
  const Stock& stock_;
  LeaseBook& leases_;
  WorkerBook& workers_;

  std::optional<Time> uncovered_since_;  // a step of the window that no lease covers
  bool self_leasing_ = false;            // until the dispatcher's next Welcome or lease
  Time self_leased_;
  std::uint64_t given_ = 0;
};

}  // namespace millrace::client
