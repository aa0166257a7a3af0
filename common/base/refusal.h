// What a refused batch means, the same for consumers and dispatchers.
#pragma once

#include "common/base/result.h"

namespace millrace {

/// Whether a worker that refuses a batch with this code refuses it to everybody, now and later:
/// batches are pure functions, and damaged files stay damaged.
inline bool IsRefusedForGood(StatusCode code) {
  return code == StatusCode::kDataLoss || code == StatusCode::kOutOfRange ||
         code == StatusCode::kInternal;
}

}  // namespace millrace
