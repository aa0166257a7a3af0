// Keeps the batches that a session has received and the loop has not taken, in the loop's order. A
// thread expands the first of them ahead of time. A loop that waits for a batch expands it itself,
// so that it need not wait for another thread.
//
// The state machine (session_machine.h) decides how many batches are held. Here, ExpandDepth only
// limits how many are expanded and not taken yet.
//
// Thread-safe. The destructor waits for an expansion under way.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "client/device/device.h"
#include "client/session/run/operation_times.h"
#include "common/base/result.h"
#include "common/batch/batch.h"
#include "common/system/mutex.h"
#include "common/system/trace.h"

namespace millrace::client {

struct ExpandedBatch {
  std::shared_ptr<const PackedBatch> packed;
  /// As many as the loop asked for.
  std::vector<std::shared_ptr<const DeliveredBatch>> micro_batches;
  Time expand_began;  // both times are set only while a trace is taken
  Time expanded;
  std::uint32_t expand_lane = 0;  // the thread that expanded it, for the trace
  /// The phases that were computed meanwhile, for the trace. Names live as long as the prefetcher.
  std::vector<OperationTime> operations;
};

/// How far ahead of the loop batches are expanded.
struct ExpandDepth {
  std::uint64_t batches = 2;  // 0: no batch, each is expanded by the loop that asks for it
  /// The number of bytes. The loop's next batch has its own place beyond this.
  std::uint64_t bytes = std::uint64_t{1} << 30;
};

class Prefetcher {
 public:
  /// Batches are expanded in `micro` micro-batches (RowsOfMicroBatch). `on_ready` is called on the
  /// prefetcher's thread, without its lock, whenever a batch is ready. `tracer` has to outlive the
  /// prefetcher.
  Prefetcher(std::shared_ptr<Device> device, std::uint32_t micro, const ExpandDepth& depth,
             const Tracer& tracer, std::function<void()> on_ready);
  ~Prefetcher();
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  /// Sets what is delivered of batches. Called before the first of them is pushed.
  void SetDelivery(Delivery delivery) { delivery_ = std::move(delivery); }

  /// Adds a received batch. `loop_waits`: the loop waits for this batch, and the caller wakes it to
  /// call TakePacked. REQUIRES: no batch was pushed for that step.
  void Push(std::uint64_t step, std::shared_ptr<const PackedBatch> batch, bool loop_waits = false);
  /// The expanded batch of `step`, or the error of its expansion. Returns nullopt if it is not
  /// ready. Steps are taken in order: the next one is `step` + 1.
  std::optional<Result<ExpandedBatch>> TryTake(std::uint64_t step);
  /// The packed batch of `step`, if nobody has begun to expand it; the caller then calls Expand.
  /// Otherwise nullptr.
  std::shared_ptr<const PackedBatch> TakePacked(std::uint64_t step);
  Result<ExpandedBatch> Expand(std::shared_ptr<const PackedBatch> packed);

 private:
  void Run();
  /// Whether one more batch may be expanded ahead.
  bool HasRoom() const MILLRACE_REQUIRES(mutex_);

  const std::shared_ptr<Device> device_;
  Delivery delivery_;  // does not change once there are batches
  const std::uint32_t micro_;
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
