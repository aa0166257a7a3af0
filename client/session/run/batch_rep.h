// The contents of a Batch, for code that makes batches.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "client/session.h"

namespace millrace {

/// A batch that the loop holds, and its place in the epoch.
struct Batch::Rep {
  std::shared_ptr<const PackedBatch> packed;
  std::vector<std::shared_ptr<const DeliveredBatch>> micro_batches;
  std::uint32_t shown = 0;  // the micro-batch that this batch shows
  Position position;
  std::uint64_t step = 0;
  std::uint64_t ordinal = 0;
  std::uint32_t rank = 0;
  std::shared_ptr<const void> held;  // notifies the session when the last reference is dropped
};

}  // namespace millrace
