// The status of the service, from the dispatcher's facts: its jobs, workers and consumers, and the
// reasons why they wait.
#pragma once

#include <cstddef>
#include <utility>

#include "millrace/v1/dispatcher.pb.h"
#include "server/dispatcher/machine/dispatcher_machine.h"
#include "server/dispatcher/machine/idle_workers.h"

namespace millrace {

/// A status that is built in steps, because the dispatcher answers nobody during a step: thousands
/// of workers and consumers take some milliseconds. Each row is as of its step. A process that
/// appears or ends between steps may be missing.
///
/// Rates come from the reports of the last minute. The figures of a job are sums over its live
/// sessions with replica 0, and its tokens, dropped examples and lost pieces are counted since
/// these began. Its place is the place of its slowest live session.
///
/// Not thread-safe: it belongs to the thread of the machine.
class StatusBuild {
 public:
  /// Both have to outlive the build.
  StatusBuild(const DispatcherMachine& dispatcher, const DispatcherOptions& options);

  /// Adds at most so many workers and consumers, at least 1. Returns whether the status is
  /// complete.
  bool Step(std::size_t rows, Time now);
  /// REQUIRES: Step has returned true. Nothing may be called afterwards.
  v1::ServiceStatus Take() { return std::move(status_); }

 private:
  void AddService(Time now);
  void AddJobs();
  void AddEvents(Time now);

  const DispatcherMachine& dispatcher_;
  const DispatcherOptions& options_;
  bool begun_ = false;
  SessionId session_;  // the last one that was added
  WorkerId worker_;    // the last one that was added
  ListUse lists_;      // of the consumers that were added
  v1::ServiceStatus status_;
};

/// A status in one step. `now` is the time of the call.
v1::ServiceStatus BuildStatus(const DispatcherMachine& dispatcher, const DispatcherOptions& options,
                              Time now);

/// Figures per second between the oldest and the newest sample; 0 if there are fewer than two.
struct Rates {
  double batches = 0;
  double examples = 0;
  double tokens = 0;
  double bytes = 0;
  double waited_seconds = 0;  // total over the last minute, not per second
};
Rates RatesOf(const SessionFacts& session);

}  // namespace millrace
