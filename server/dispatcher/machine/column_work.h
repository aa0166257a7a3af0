// Measuring columns: which worker measures which ranges of examples, who gets the ranges of a lost
// worker, and when a column is whole. Plans wait for it (plan_requests.h).
//
// Every range is kept once, whichever worker measured it first. A worker has twice as many ranges
// at once as it measures between two reports, so that it never waits for more, and little is lost
// with it.
//
// Not thread-safe: it belongs to the event loop.
#pragma once

#include <string>

#include "server/dispatcher/machine/column_facts.h"
#include "server/dispatcher/machine/transition.h"

namespace millrace {

class ColumnWork {
 public:
  /// `transition` has to outlive it.
  explicit ColumnWork(Transition& transition)
      : transition_(transition), facts_(transition.facts()), options_(transition.options()) {}

  /// Has columns measured, unless they are being measured. Returns the key of the columns that a
  /// plan has to wait for: these, or others of the same source with which they overlap.
  std::string Want(const v1::PipelineText& pipeline, const ColumnWant& want);
  /// Takes the ranges that a worker has measured, and gives it more. Returns whether the worker
  /// needs a message. REQUIRES: the report is among the facts.
  bool OnReport(WorkerId worker, const v1::WorkRequest& request);
  /// Takes the answer to a FinishColumns.
  void OnKept(const std::string& key, const Status& status);
  /// Gives the ranges of lost workers to others, and ends measuring columns that no plan needs.
  void Tick();

  /// The reason why a plan that lacks columns waits.
  std::string Why(const std::string& key) const;
  /// Not ok if every worker that could measure columns has failed for good.
  Status CheckViability(const std::string& key) const;
  /// Adds to a message for a worker all ranges that it has to measure.
  void AddTasks(const Worker& worker, v1::WorkResponse& response) const;

 private:
  void Take(WorkerId worker, const ColumnFacts& columns, const v1::Measured& measured);
  void Fail(WorkerId worker, const ColumnFacts& columns, const Status& why);
  /// Gives a worker as many ranges as it may have. Returns whether it got any.
  bool Give(const Worker& worker);
  void TakeBackLost(const ColumnFacts& columns);
  void TellProgress(const ColumnFacts& columns);
  /// Ends measuring columns that are whole.
  void FinishIfWhole(const ColumnFacts& columns);

  Transition& transition_;
  const DispatcherFacts& facts_;
  const DispatcherOptions& options_;
};

}  // namespace millrace
