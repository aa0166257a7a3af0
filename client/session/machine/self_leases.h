// Leases that a consumer gives itself when it gets none from the dispatcher. It does so in two
// cases: a part of its window has had no lease for 3 s, or the part has none and no dispatcher was
// heard for 3 s. The consumer then leases that part to itself, from the workers that it knows. Any
// worker can build any batch, so a running trainer can go on without a dispatcher.
//
// Such leases have term 0, and `last_lease` does not count them. Reports name them as held, so that
// a dispatcher that comes back does not lease their steps again. The dispatcher's next Welcome or
// lease ends this.
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
  /// After a Welcome, the dispatcher has at least this long to lease a step that has no lease.
  static constexpr Duration kWelcomeLeases = std::chrono::seconds(1);
  /// The pause between two leases that the consumer gives itself, if all its workers fail.
  static constexpr Duration kSelfLeasesApart = std::chrono::milliseconds(250);

  SelfLeases(SessionContext& context, const Attach& attach, const Stock& stock, LeaseBook& leases,
             WorkerBook& workers)
      : context_(context), attach_(attach), stock_(stock), leases_(leases), workers_(workers) {}

  void OnWelcome(Time now);
  /// A lease from the dispatcher came.
  void OnLeased();
  /// Gives the consumer leases if they are due. REQUIRES: the session is admitted.
  void LeaseToItself(Time now);
  void AddTimes(NextDue& next) const;
  /// Whether the consumer gives itself leases. This lasts until the dispatcher's next Welcome or
  /// lease.
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

  std::optional<Time> uncovered_since_;  // since when some step of the window has no lease
  bool self_leasing_ = false;
  Time self_leased_;
  std::uint64_t given_ = 0;
};

}  // namespace millrace::client
