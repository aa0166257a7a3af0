// Makes the report that a session sends to the dispatcher, and the statistics that its user sees.
//
// Not thread-safe: part of the session's state machine.
#pragma once

#include "client/session/machine/attach.h"
#include "client/session/machine/lease_book.h"
#include "client/session/machine/self_leases.h"
#include "client/session/machine/stats.h"
#include "client/session/machine/stock.h"
#include "client/session/machine/supply.h"
#include "client/session/machine/waits.h"
#include "client/session/machine/worker_book.h"

namespace millrace::client {

class SessionReport {
 public:
  /// If the loop has waited for this long, the report names the lease that is late.
  static constexpr Duration kLate = std::chrono::seconds(1);

  /// The parts that reports describe.
  struct Parts {
    const Attach& attach;
    const Stock& stock;
    const LeaseBook& leases;
    const WorkerBook& workers;
    const Supply& supply;
    const SelfLeases& self_leases;
    const Waits& waits;
  };

  explicit SessionReport(const Parts& parts) : parts_(parts) {}

  /// REQUIRES: the session is admitted.
  v1::Report Make(bool ended, Time now) const;
  SessionStats Stats(Time now) const;
  /// The statistics as of the last event.
  SessionStats Counted() const;

 private:
  const Parts parts_;
};

}  // namespace millrace::client
