#include "server/worker/service/builder.h"

namespace millrace {

Result<std::shared_ptr<const BuiltBatch>> BuildBatch(const BuildQueue::Task& task, const Plan& plan,
                                                     BatchScratch& scratch) {
  Result<std::shared_ptr<const PackedBatch>> batch = plan.Batch(task.at.epoch, task.range, scratch);
  if (!batch.ok()) return batch.status().WithContext("batch at " + task.at.ToString());
  auto built = std::make_shared<BuiltBatch>();
  built->batch = std::move(batch).value();
  built->digest = built->batch->digest().ToBytes();
  return std::shared_ptr<const BuiltBatch>(std::move(built));
}

}  // namespace millrace
