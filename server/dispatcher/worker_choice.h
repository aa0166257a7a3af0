// Which worker gets a consumer's next shard.
#pragma once

#include <cstddef>
#include <random>
#include <string>
#include <vector>

#include "server/dispatcher/dispatcher_options.h"
#include "server/dispatcher/facts.h"

namespace millrace {

/// Whether a worker's words are fresh enough to give it new leases.
bool IsHeard(const Worker& worker, Time now, const DispatcherOptions& options);

/// Whether a consumer's batches may come from this worker: heard, not draining, the plan ready, and
/// reachable. What its connections have shown so far (`failing`) is not asked here.
bool IsUsable(const Worker& worker, const SessionFacts& session, Time now,
              const DispatcherOptions& options);

/// The workers of one consumer at one moment, and the choice among them.
///
/// The set has at most 8 usable workers that do not fail the consumer: those of its own host first,
/// then by rendezvous hashing (Thaler and Ravishankar, 1998), so that a consumer keeps its workers
/// when others come and go. Each shard goes to one of the own host if there is one, else to the
/// better of two drawn at random (Mitzenmacher, 2001), by the seconds of work before it. Where all
/// usable workers fail the consumer, the one that failed longest ago is the set, one that fails it
/// for good last. Not thread-safe; the workers have to outlive it.
class WorkerChooser {
 public:
  WorkerChooser(const std::map<Number, Worker>& workers, const SessionFacts& session, Time now,
                const DispatcherOptions& options);

  bool empty() const { return set_.empty(); }
  std::size_t size() const { return set_.size(); }
  /// The worker of a shard of `batches`, whose work is counted from then on. REQUIRES: !empty().
  const Worker& Pick(std::uint32_t batches, std::mt19937_64& random);

 private:
  struct Candidate {
    const Worker* worker;
    bool same_host;
    std::uint64_t weight;  // of rendezvous hashing
    double seconds_per_batch;
    double queue_seconds;
  };

  std::vector<Candidate> set_;
  std::size_t choices_ = 0;  // the first so many of the set are drawn from
};

}  // namespace millrace
