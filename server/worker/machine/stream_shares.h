// How a worker's slots and threads are divided among the streams of its consumers. Jobs with a
// stream that asks share them by priority, and the streams of a job that ask share equally. A
// stream asks if its consumer says so, or if a step of it waits here: otherwise workers that many
// consumers prefer would seem idle to each. A stream that does not ask gets the figures that it
// would have if it did.
//
// A slot is a step that is asked for and not built. Builds are not interrupted, so a job with short
// batches beside one with long batches takes its share in turns. It needs as many slots as it has
// builds in a turn: otherwise each missing slot means one more long batch of the other job.
//
// Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "server/worker/machine/shared_batches.h"

namespace millrace {

/// A stream's share of a worker.
struct StreamShare {
  double of_worker = 1;     // above 0 and at most 1
  double turn_seconds = 0;  // of one thread: its share while another job builds one batch
};

class StreamShares {
 public:
  /// Adds a stream of a job. The stream does not ask for more yet.
  void Add(BatchStreamId stream, const std::string& job);
  void Remove(BatchStreamId stream);
  /// Sets the job's weight, 1 at first. REQUIRES: the job has a stream, weight > 0.
  void SetWeight(const std::string& job, double weight);
  /// REQUIRES: Add.
  void SetAsks(BatchStreamId stream, bool asks);
  /// Sets how long a batch of the job takes, for one thread. Ignored if the job has no stream.
  void SetBatchSeconds(const std::string& job, double seconds);

  /// REQUIRES: Add.
  StreamShare Of(BatchStreamId stream) const;

 private:
  struct Job {
    double weight = 1;
    double batch_seconds = 0;
    std::size_t streams = 0;
    std::size_t asking = 0;  // of these streams
  };
  struct Stream {
    std::string job;
    bool asks = false;
  };

  /// The longest batch of the other jobs with a stream that asks; 0: no such job.
  double LongestOther(const Job& job) const;

  std::map<std::string, Job> jobs_;
  std::map<BatchStreamId, Stream> streams_;
  // About the jobs with a stream that asks:
  double asking_weight_ = 0;
  std::multiset<double> batch_seconds_;
};

/// A worker's capacity for batches of one plan.
struct WorkerCapacity {
  int threads = 1;
  double batch_seconds = 0;        // of one thread; 0: not known yet
  double batch_bytes = 0;          // 0: not known yet
  std::uint64_t memory_bytes = 0;  // that batches may take besides the built ones
};

/// The number of steps that may be asked of the worker and not built: two for each thread, or as
/// many as it builds in 0.2 s if that is more, and no more than its memory has room for.
std::uint32_t SlotsOfWorker(const WorkerCapacity& capacity);
/// The slots of a stream: its part of the worker's slots, or as many as are built in its turn if
/// that is more, and no more than its part of the memory has room for. At least one.
std::uint32_t SlotsOfStream(const WorkerCapacity& capacity, const StreamShare& share);
/// Thousandths of a thread that a stream has with this part of the worker.
std::uint32_t ThreadsMilli(int threads, double of_worker);

}  // namespace millrace
