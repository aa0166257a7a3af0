// The meaning of a refused batch. Consumers and dispatchers share it.
#pragma once

#include <cstddef>

#include "common/base/result.h"

namespace millrace {

/// Whether a worker that refuses a batch with this code would refuse it to everybody, now and
/// later. Batches are pure functions, and damaged files stay damaged, so another try cannot help.
/// kAborted: the code of a user failed to build an example there, twice.
inline bool IsRefusedForGood(StatusCode code) {
  return code == StatusCode::kDataLoss || code == StatusCode::kAborted ||
         code == StatusCode::kOutOfRange || code == StatusCode::kInternal;
}

/// The number of workers that try a batch that user code fails to build: the first one twice, and
/// then another one once, as the first one's host may lack something that the code needs.
inline constexpr std::size_t kWorkersTryCode = 2;

/// The most batches that a report names as not built by one worker.
inline constexpr int kMaxRefusedBatches = 16;

}  // namespace millrace
