#include "server/worker/service/builder.h"

namespace millrace {

Result<std::shared_ptr<const BuiltBatch>> MakeBuilt(
    const BuildQueue::Task& task, Result<std::shared_ptr<const PackedBatch>> batch,
    bool mostly_python) {
  if (!batch.ok()) return batch.status().WithContext("batch at " + task.at.ToString());
  auto built = std::make_shared<BuiltBatch>();
  built->batch = std::move(batch).value();
  built->digest = built->batch->digest().ToBytes();
  built->mostly_python = mostly_python;
  return std::shared_ptr<const BuiltBatch>(std::move(built));
}

}  // namespace millrace
