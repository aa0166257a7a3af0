// Building one batch: the plan's work, its digest and how long it took. One thread a batch.
#pragma once

#include <memory>
#include <string>

#include "common/base/result.h"
#include "common/base/time.h"
#include "common/batch/batch.h"
#include "server/pipeline/plan.h"
#include "server/worker/machine/build_queue.h"

namespace millrace {

/// A batch and what travels beside it.
struct BuiltBatch {
  std::shared_ptr<const PackedBatch> batch;
  std::string digest;  // 16 bytes: XXH3-128 of header and payload
};

/// Builds `task`'s batch of `plan`. Its errors are the plan's, with the place before them.
Result<std::shared_ptr<const BuiltBatch>> BuildBatch(const BuildQueue::Task& task, const Plan& plan,
                                                     BatchScratch& scratch);

}  // namespace millrace
