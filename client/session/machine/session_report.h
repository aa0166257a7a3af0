// Makes the report that a session sends to the dispatcher, and the statistics that its user sees.
//
// Not thread-safe: part of the session's state machine.
#pragma once

#include "client/session/machine/ask_book.h"
#include "client/session/machine/attach.h"
#include "client/session/machine/dealing.h"
#include "client/session/machine/loop_pace.h"
#include "client/session/machine/stats.h"
#include "client/session/machine/stock.h"
#include "client/session/machine/streams.h"
#include "client/session/machine/supply.h"
#include "client/session/machine/waits.h"
#include "client/session/machine/worker_book.h"
#include "client/session/machine/worker_list.h"

namespace millrace::client {

class SessionReport {
 public:
  /// The components that reports describe.
  struct Components {
    const Attach& attach;
    const WorkerList& list;
    const Stock& stock;
    const AskBook& asks;
    const WorkerBook& workers;
    const Supply& supply;
    const Dealing& dealing;
    const Streams& streams;
    const LoopPace& pace;
    const Waits& waits;
  };

  explicit SessionReport(const Components& components) : components_(components) {}

  /// REQUIRES: the session is admitted.
  v1::Report Make(bool ended, Time now) const;
  SessionStats Stats(Time now) const;
  /// The statistics as of the last event.
  SessionStats Counted() const;

 private:
  void AddAsks(Time now, v1::Report& report) const;

  const Components components_;
};

}  // namespace millrace::client
