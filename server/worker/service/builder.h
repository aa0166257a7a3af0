// A batch that was built, with its digest.
#pragma once

#include <memory>
#include <string>

#include "common/base/result.h"
#include "common/base/time.h"
#include "common/batch/batch.h"
#include "server/worker/machine/build_queue.h"

namespace millrace {

/// A built batch and the digest that is sent with it.
struct BuiltBatch {
  std::shared_ptr<const PackedBatch> batch;
  std::string digest;          // 16 bytes: XXH3-128 of header and payload
  bool mostly_python = false;  // processes of plugins took most of the time
};

/// Makes the built batch from the plan's batch for `task`. Errors are the plan's errors, with the
/// batch's position before them.
Result<std::shared_ptr<const BuiltBatch>> MakeBuilt(
    const BuildQueue::Task& task, Result<std::shared_ptr<const PackedBatch>> batch,
    bool mostly_python);

}  // namespace millrace
