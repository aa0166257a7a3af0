#include "server/worker/service/slice_builder.h"

#include <algorithm>
#include <utility>

#include "common/base/wait_cause.h"

namespace millrace {
namespace {

using StageTook = WorkerMachine::StageTook;

void AddTo(std::vector<StageTook>& stages, const StageTook& more) {
  const auto same = std::find_if(stages.begin(), stages.end(), [&](const StageTook& other) {
    return other.stage == more.stage;
  });
  if (same != stages.end()) {
    same->seconds += more.seconds;
  } else {
    stages.push_back(more);
  }
}

}  // namespace

std::vector<StageTook> StagesBetween(const std::vector<BatchScratch::StageTime>& before,
                                     const std::vector<BatchScratch::StageTime>& after) {
  std::vector<StageTook> stages;
  stages.reserve(after.size());
  for (std::size_t i = 0; i < after.size(); ++i) {
    AddTo(stages, {after[i].stage, after[i].seconds - before[i].seconds});
  }
  return stages;
}

bool IsMostlyPython(const std::vector<StageTook>& stages) {
  double all = 0;
  double python = 0;
  for (const StageTook& stage : stages) {
    all += stage.seconds;
    if (IsPythonStage(stage.stage)) python += stage.seconds;
  }
  return 2 * python > all;
}

Result<std::shared_ptr<const BuiltBatch>> SliceBuilder::Join(BatchScratch& scratch) {
  const std::vector<BatchScratch::StageTime> before = scratch.stage_times();
  Result<std::shared_ptr<const PackedBatch>> batch = batch_->Join(scratch);
  std::vector<StageTook> stages = took().stages;
  for (const StageTook& last : StagesBetween(before, scratch.stage_times())) AddTo(stages, last);
  return MakeBuilt(task_, std::move(batch), IsMostlyPython(stages));
}

void SliceBuilder::Add(double seconds, const std::vector<StageTook>& stages) {
  MutexLock lock(mutex_);
  took_.seconds += seconds;
  for (const StageTook& stage : stages) AddTo(took_.stages, stage);
}

SliceBuilder::Took SliceBuilder::took() const {
  MutexLock lock(mutex_);
  return took_;
}

}  // namespace millrace
