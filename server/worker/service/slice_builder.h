// A batch that several threads of a worker build together, and their times.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "common/base/result.h"
#include "common/base/time.h"
#include "common/system/mutex.h"
#include "server/plan/plan.h"
#include "server/worker/machine/worker_machine.h"
#include "server/worker/service/builder.h"

namespace millrace {

/// How long each stage took between two readings of a scratch. Stages of one name are added up.
std::vector<WorkerMachine::StageTook> StagesBetween(
    const std::vector<BatchScratch::StageTime>& before,
    const std::vector<BatchScratch::StageTime>& after);

/// Whether processes of plugins took most of such a time.
bool IsMostlyPython(const std::vector<WorkerMachine::StageTook>& stages);

/// Thread-safe.
class SliceBuilder {
 public:
  SliceBuilder(BuildQueue::Task task, std::shared_ptr<const Plan> plan,
               std::unique_ptr<SlicedBatch> batch)
      : task_(std::move(task)), plan_(std::move(plan)), batch_(std::move(batch)) {}

  const BuildQueue::Task& task() const { return task_; }
  const std::shared_ptr<const Plan>& plan() const { return plan_; }

  /// As SlicedBatch::Build.
  bool Build(const RowSlice& slice, BatchScratch& scratch) {
    return batch_->Build(slice.first, slice.rows, scratch);
  }
  /// As SlicedBatch::Join.
  Result<std::shared_ptr<const BuiltBatch>> Join(BatchScratch& scratch);

  /// Adds a thread's time for a part of the work.
  void Add(double seconds, const std::vector<WorkerMachine::StageTook>& stages);
  struct Took {
    double seconds = 0;  // of all threads together
    std::vector<WorkerMachine::StageTook> stages;
  };
  Took took() const;

 private:
  const BuildQueue::Task task_;
  const std::shared_ptr<const Plan> plan_;    // outlives the batch
  const std::unique_ptr<SlicedBatch> batch_;
  mutable Mutex mutex_;
  Took took_ MILLRACE_GUARDED_BY(mutex_);
};

}  // namespace millrace
