#include "server/worker/service/builder.h"

#include "common/base/wait_cause.h"

namespace millrace {
namespace {

struct Times {
  double all = 0;
  double python = 0;
};

Times TimesOf(const BatchScratch& scratch) {
  Times times;
  for (const BatchScratch::StageTime& stage : scratch.stage_times()) {
    times.all += stage.seconds;
    if (IsPythonStage(stage.stage)) times.python += stage.seconds;
  }
  return times;
}

}  // namespace

Result<std::shared_ptr<const BuiltBatch>> BuildBatch(const BuildQueue::Task& task, const Plan& plan,
                                                     BatchScratch& scratch) {
  const Times before = TimesOf(scratch);
  Result<std::shared_ptr<const PackedBatch>> batch = plan.Batch(task.at.epoch, task.range, scratch);
  if (!batch.ok()) return batch.status().WithContext("batch at " + task.at.ToString());
  auto built = std::make_shared<BuiltBatch>();
  built->batch = std::move(batch).value();
  built->digest = built->batch->digest().ToBytes();
  const Times after = TimesOf(scratch);
  built->mostly_python = 2 * (after.python - before.python) > after.all - before.all;
  return std::shared_ptr<const BuiltBatch>(std::move(built));
}

}  // namespace millrace
