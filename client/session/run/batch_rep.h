// What stands behind a Batch: for those that make one.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "client/session.h"

namespace millrace {

/// A batch in the loop's hands, and where it is from.
struct Batch::Rep {
  std::shared_ptr<const PackedBatch> packed;
  std::vector<std::shared_ptr<const DeliveredBatch>> parts;
  std::uint32_t part = 0;  // the one that this batch shows
  Position position;
  std::uint64_t step = 0;
  std::uint64_t ordinal = 0;
  std::uint32_t rank = 0;
  std::shared_ptr<const void> held;  // tells the session when the last reference goes
};

}  // namespace millrace
