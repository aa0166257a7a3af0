// The arithmetic of `millrace size`: what a training needs, from the cost of a sample of its
// batches.
//
// Each result is rounded at once to four significant digits, which are printed, and the next one is
// computed from the rounded number. So every printed number follows exactly from the numbers
// printed above it.
//
// Pure functions and values; thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace millrace::cli {

/// The training that is to be served.
struct SizeRequest {
  std::uint32_t gpus = 1;          // each takes one batch per step; at least 1
  double step_seconds = 1;         // time of a step of the training loop; more than 0
  double reserve = 0.25;           // the share of cores that is added; at least 0
  std::uint32_t worker_cores = 1;  // cores of one worker; at least 1
};

/// How values are spread.
struct Spread {
  std::uint64_t count = 0;
  double mean = 0;
  double p99 = 0;  // 99 of 100 values are at most this
  double largest = 0;
  /// The standard error of the mean, as a share of the mean. 1, which says nothing, for fewer than
  /// two values.
  double error = 1;
};

/// REQUIRES: no value is negative. All figures are rounded, see above.
Spread SpreadOf(std::vector<double> values);

/// Seconds that a batch spends in one stage of building, waiting included.
struct StageCost {
  std::string name;
  double seconds = 0;   // per batch, mean
  bool python = false;  // whether processes of a plugin take the time
};

/// The cost of a sample of batches that one thread built. Costs are per batch.
struct SampleFacts {
  double seconds = 0;          // that the whole sample took
  Spread cpu;                  // CPU seconds of this process, without processes of plugins
  double elapsed_seconds = 0;  // mean, waiting included
  std::vector<StageCost> stages;
  double examples = 0;       // mean
  Spread bytes;              // packed, as they travel
  double builder_bytes = 0;  // memory that a builder thread holds, beside the batch
  double base_bytes = 0;     // memory of the process before it built anything, without files
  /// Bytes that this process had to read from storage, mean. Empty if the kernel does not report
  /// it.
  std::optional<double> storage_bytes;
};

/// All that is known before the arithmetic.
struct SizeFacts {
  SampleFacts sample;
  double python_process_bytes = 0;  // memory of one process of a plugin; 0: no plugins
  std::uint64_t epoch_batches = 1;  // of all ranks together; at least 1
  double dataset_bytes = 0;         // all files of all datasets; 0: not known
  double prefetch_bytes = 0;        // that a consumer receives ahead
  double host_memory_bytes = 0;     // of this host
};

/// The needs of the training. Rates and bytes are rounded as described above; counts are rounded
/// up.
struct SizeAnswer {
  double batches_per_second = 0;  // of all consumers
  double examples_per_second = 0;

  double send_seconds = 0;   // CPU seconds to send a batch over the network
  double batch_seconds = 0;  // CPU seconds to build and send a batch
  double busy_cores = 0;     // without the reserve
  double cores_with_reserve = 0;
  std::uint64_t cores = 1;
  /// The number of cores if the mean CPU time is wrong by two standard errors, down and up.
  std::uint64_t cores_low = 1;
  std::uint64_t cores_high = 1;
  double python_seconds = 0;  // of processes of plugins, per batch
  double busy_processes = 0;  // without the reserve
  double processes_with_reserve = 0;
  std::uint64_t python_processes = 0;  // each on a core of its own
  std::uint64_t workers = 1;
  std::uint64_t processes_per_worker = 0;

  double gbit_per_second = 0;  // of all workers
  double gbit_per_second_worker = 0;
  double gbit_per_second_consumer = 0;

  double consumer_bytes = 0;  // that a consumer may receive ahead
  double building_bytes = 0;  // of a worker's threads: their memory, and one batch per thread
  double plugin_bytes = 0;    // of a worker's processes of plugins
  double pause_bytes = 0;     // of the batches that a consumer takes in kPauseSeconds
  /// Bytes that all workers together build ahead for a consumer: pause_bytes, but at least two
  /// batches, and at most consumer_bytes.
  double ahead_of_consumer_bytes = 0;
  double ahead_bytes = 0;          // of batches that a worker has built ahead
  double worker_bytes = 0;         // of a worker, without the page cache
  std::uint64_t memory_limit = 0;  // suggested for a worker; bytes

  double epoch_seconds = 0;
  double share_bytes = 0;       // the dataset's bytes for each batch of an epoch
  double disk_batch_bytes = 0;  // read for a batch if nothing is cached
  double disk_epoch_bytes = 0;
  double disk_bytes_per_second = 0;  // of all workers
  double disk_bytes_per_second_worker = 0;
  double cached_bytes = 0;  // memory of a worker that also keeps the dataset in the page cache
  bool fits_host = false;   // whether this host has that much
};

/// The CPU time of a worker to send a batch over gRPC, from the tables of
/// docs/internals/benchmarks.md with batches of 64 and 512 examples.
inline constexpr double kSendSecondsABatch = 100e-6;
inline constexpr double kSendSecondsAByte = 0.8e-9;
/// Batches are built this far ahead, so that a worker may pause or end without a wait.
inline constexpr double kPauseSeconds = 10;
/// One part in this many of memory_limit may hold batches built ahead.
inline constexpr double kBatchShare = 4;
/// A suggested memory limit is a multiple of this.
inline constexpr double kLimitStepBytes = 250e6;

/// The number, to four significant digits.
double Rounded(double number);

/// REQUIRES: request and facts are within the ranges given at their members.
SizeAnswer AnswerSize(const SizeRequest& request, const SizeFacts& facts);

}  // namespace millrace::cli
