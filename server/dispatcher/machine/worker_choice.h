// The choice of the worker that gets a consumer's next shard.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <random>
#include <unordered_map>
#include <vector>

#include "server/dispatcher/machine/dispatcher_options.h"
#include "server/dispatcher/machine/facts.h"
#include "server/dispatcher/machine/updates.h"

namespace millrace {

/// Whether a worker was heard recently enough to get new leases.
bool IsHeard(const Worker& worker, Time now, const DispatcherOptions& options);

/// Fills `out` with the worker, as consumers are told of it.
void ToProto(const Worker& worker, v1::WorkerRef* out);

/// The totals of a worker since its start, as it reports them.
struct BuildTotals {
  double seconds = 0;  // of builder threads, all stages together
  std::uint64_t batches = 0;
};
BuildTotals BuildTotalsOf(const v1::WorkRequest& report);

/// Whether a consumer's batches may come from this worker: it is heard and does not drain, its plan
/// is ready, and the consumer can reach it. The failures that the consumer has reported are not
/// considered here.
bool IsUsable(const Worker& worker, const SessionFacts& session, Time now,
              const DispatcherOptions& options);

/// The workers that a consumer's shards may go to.
struct WorkerSet {
  std::vector<const Worker*> workers;
  std::size_t own_host = 0;  // this many, at the front, are on the consumer's host
};

/// Usable workers that do not fail the consumer, at most max_workers_of_consumer. Those on its own
/// host come first. Otherwise the order is that of rendezvous hashing (Thaler and Ravishankar,
/// 1998), so that a consumer keeps its workers when others come and go. If all usable workers fail
/// the consumer, the set has only the one that failed longest ago. One that fails it for good is
/// taken only if all of them do.
WorkerSet MakeWorkerSet(const std::map<Number, Worker>& workers, const SessionFacts& session,
                        Time now, const DispatcherOptions& options);

/// The usable worker that failed the consumer longest ago, of those that fail it. One that fails it
/// for good comes last. None that has refused the batch at `at`, if that is given; nullptr if there
/// is none.
const Worker* FailedLongestAgo(const std::map<Number, Worker>& workers, const SessionFacts& session,
                               std::optional<Position> at, Time now,
                               const DispatcherOptions& options);

/// The sets of all consumers. A set is made again only after a change that it depends on, so that
/// a report is answered without a look at every worker. Not thread-safe. The workers have to
/// outlive it, unless WillApply has seen that they left.
class WorkerSets {
 public:
  /// The consumer's set, which is valid until the next call.
  const WorkerSet& Of(const SessionFacts& session, const std::map<Number, Worker>& workers,
                      Time now, const DispatcherOptions& options);

  /// Must be called before each update is applied.
  void WillApply(const Update& update, const std::map<Number, Worker>& workers, Time now,
                 const DispatcherOptions& options);

 private:
  std::unordered_map<Number, WorkerSet> sets_;  // by session
  WorkerSet last_;                              // a set that is not kept for the next report
};

/// The choice among a consumer's workers for the shards of one answer.
///
/// Two workers are drawn at random, and the shard goes to the one with fewer seconds of work before
/// it (Mitzenmacher, 2001). If there are workers on the consumer's own host, only these are drawn
/// from. Not thread-safe; the set and the workers have to outlive it.
class WorkerChooser {
 public:
  explicit WorkerChooser(const WorkerSet& set) : set_(set) {}

  bool empty() const { return set_.workers.empty(); }
  /// Picks the worker for a shard of `batches`, and counts the shard as its work. REQUIRES:
  /// !empty().
  const Worker& Pick(std::uint32_t batches, std::mt19937_64& random);
  /// Whether a worker, which need not be one of these, has at most a second of work more before it
  /// than the least busy of those that are drawn from. REQUIRES: !empty().
  bool IsFair(const Worker& worker);

 private:
  struct Candidate {
    const Worker* worker;
    double seconds_per_batch;
    double queue_seconds;
  };

  /// Looks at the workers when the first choice is made: most answers only share.
  void Look();

  const WorkerSet& set_;
  std::vector<Candidate> candidates_;  // that are drawn from; empty before the first choice
};

}  // namespace millrace
