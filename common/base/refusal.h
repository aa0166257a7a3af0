// The meaning of a refused batch. Consumers and dispatchers share it.
#pragma once

#include "common/base/result.h"

namespace millrace {

/// Whether a worker that refuses a batch with this code would refuse it to everybody, now and
/// later. Batches are pure functions, and damaged files stay damaged, so another try cannot help.
inline bool IsRefusedForGood(StatusCode code) {
  return code == StatusCode::kDataLoss || code == StatusCode::kOutOfRange ||
         code == StatusCode::kInternal;
}

}  // namespace millrace
