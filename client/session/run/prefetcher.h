// The batches that a session has received and the loop has not taken, in the loop's order, and a
// thread that expands the first of them ahead of time. A loop that waits for a batch expands it
// itself, which saves it the wait for another thread.
//
// How many are held is the state machine's affair (session_machine.h); here only ExpandDepth bounds
// how many are expanded and not taken yet.
//
// Thread-safe. The destructor waits for an expansion under way.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "client/device/device.h"
#include "common/base/result.h"
#include "common/batch/batch.h"
#include "common/system/mutex.h"
#include "common/system/trace.h"

namespace millrace::client {

struct ExpandedBatch {
  std::shared_ptr<const PackedBatch> packed;
  std::vector<std::shared_ptr<const DeliveredBatch>> parts;  // as many as the loop asked for
  Time expand_began;                                         // while a trace is taken
  Time expanded;
  std::uint32_t expand_lane = 0;  // the thread that did it, for the trace
};

/// How far ahead of the loop batches are expanded.
struct ExpandDepth {
  std::uint64_t batches = 2;
  std::uint64_t bytes = std::uint64_t{1} << 30;  // delivered; the first one has its place beyond
};

class Prefetcher {
 public:
  /// Batches are expanded in `parts` parts (RowsOfPart). `on_ready` is called on the prefetcher's
  /// thread, without its lock, whenever a batch is ready. `tracer` has to outlive the prefetcher.
  Prefetcher(std::shared_ptr<Device> device, DType index_dtype, std::uint32_t parts,
             const ExpandDepth& depth, const Tracer& tracer, std::function<void()> on_ready);
  ~Prefetcher();
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  /// A received batch. `loop_waits`: the loop waits for it, and will be told to TakePacked by the
  /// caller. REQUIRES: none was pushed for that step.
  void Push(std::uint64_t step, std::shared_ptr<const PackedBatch> batch, bool loop_waits = false);
  /// The batch of `step` where it is ready, or why it cannot be expanded. Steps are taken in order:
  /// the next to be expanded is the one after.
  std::optional<Result<ExpandedBatch>> TryTake(std::uint64_t step);
  /// The batch of `step` where nobody has begun to expand it: the caller does, with Expand. Else
  /// nullptr.
  std::shared_ptr<const PackedBatch> TakePacked(std::uint64_t step);
  Result<ExpandedBatch> Expand(std::shared_ptr<const PackedBatch> packed);

 private:
  void Run();
  /// Whether one more batch may be expanded ahead.
  bool HasRoom() const MILLRACE_REQUIRES(mutex_);

  const std::shared_ptr<Device> device_;
  const DType index_dtype_;
  const std::uint32_t parts_;
  const ExpandDepth depth_;
  const Tracer& tracer_;
  const std::function<void()> on_ready_;
  Mutex mutex_;
  CondVar changed_;
  bool stopping_ MILLRACE_GUARDED_BY(mutex_) = false;
  std::uint64_t next_ MILLRACE_GUARDED_BY(mutex_) = 0;    // first step not taken
  std::uint64_t expand_ MILLRACE_GUARDED_BY(mutex_) = 0;  // next step to expand
  std::map<std::uint64_t, std::shared_ptr<const PackedBatch>> packed_ MILLRACE_GUARDED_BY(mutex_);
  std::map<std::uint64_t, Result<ExpandedBatch>> ready_ MILLRACE_GUARDED_BY(mutex_);
  std::uint64_t ready_bytes_ MILLRACE_GUARDED_BY(mutex_) = 0;
  std::thread thread_;
};

}  // namespace millrace::client
