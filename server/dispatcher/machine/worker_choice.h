// Which worker gets a consumer's next shard.
#pragma once

#include <cstddef>
#include <map>
#include <random>
#include <unordered_map>
#include <vector>

#include "server/dispatcher/machine/dispatcher_options.h"
#include "server/dispatcher/machine/facts.h"
#include "server/dispatcher/machine/updates.h"

namespace millrace {

/// Whether a worker's words are fresh enough to give it new leases.
bool IsHeard(const Worker& worker, Time now, const DispatcherOptions& options);

/// A worker as consumers are told of it.
void ToProto(const Worker& worker, v1::WorkerRef* out);

/// Batches that a worker can build in a second with all its threads, as its builds have shown so
/// far; 0 before the first.
double BatchesPerSecond(const v1::WorkRequest& report);

/// Whether a consumer's batches may come from this worker: heard, not draining, the plan ready, and
/// reachable. What its connections have shown so far (`failing`) is not asked here.
bool IsUsable(const Worker& worker, const SessionFacts& session, Time now,
              const DispatcherOptions& options);

/// The workers that a consumer's shards may go to.
struct WorkerSet {
  std::vector<const Worker*> workers;
  std::size_t own_host = 0;  // the first so many are on the consumer's host
};

/// At most 8 usable workers that do not fail the consumer: those of its own host first, then by
/// rendezvous hashing (Thaler and Ravishankar, 1998), so that a consumer keeps its workers when
/// others come and go. Where all usable workers fail the consumer, the one that failed longest ago,
/// one that fails it for good last.
WorkerSet MakeWorkerSet(const std::map<Number, Worker>& workers, const SessionFacts& session,
                        Time now, const DispatcherOptions& options);

/// The sets of all consumers, each made again only when something has changed that it follows from:
/// a report is answered without a look at every worker. Not thread-safe; the workers have to
/// outlive it, or be told of.
class WorkerSets {
 public:
  /// Good until the next call.
  const WorkerSet& Of(const SessionFacts& session, const std::map<Number, Worker>& workers,
                      Time now, const DispatcherOptions& options);

  /// To be called before an update is applied.
  void WillApply(const Update& update, const std::map<Number, Worker>& workers, Time now,
                 const DispatcherOptions& options);

 private:
  std::unordered_map<Number, WorkerSet> sets_;  // by session
  WorkerSet last_;                              // one that is not kept
};

/// The choice among a consumer's workers for the shards of one answer.
///
/// Each shard goes to one of the own host if there is one, else to the better of two drawn at
/// random (Mitzenmacher, 2001), by the seconds of work before it. Not thread-safe; the workers have
/// to outlive it.
class WorkerChooser {
 public:
  explicit WorkerChooser(const WorkerSet& set);

  bool empty() const { return set_.empty(); }
  std::size_t size() const { return set_.size(); }
  /// The worker of a shard of `batches`, whose work is counted from then on. REQUIRES: !empty().
  const Worker& Pick(std::uint32_t batches, std::mt19937_64& random);

 private:
  struct Candidate {
    const Worker* worker;
    double seconds_per_batch;
    double queue_seconds;
  };

  std::vector<Candidate> set_;
  std::size_t choices_ = 0;  // the first so many of the set are drawn from
};

}  // namespace millrace
