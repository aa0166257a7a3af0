// Where batches are expanded to their delivered form.
//
// Implementations are thread-safe.
#pragma once

#include <memory>
#include <string_view>

#include "common/base/result.h"
#include "common/batch/arena.h"
#include "common/batch/batch.h"
#include "common/batch/expand.h"

namespace millrace {

class Device {
 public:
  virtual ~Device() = default;
  /// "host", …
  virtual std::string_view name() const = 0;
  /// The delivered form of some rows, in memory of this device. `index_dtype` is int32 or int64;
  /// OutOfRange where numbers do not fit it, DataLoss where the batch is damaged.
  virtual Result<std::shared_ptr<const DeliveredBatch>> Expand(
      const std::shared_ptr<const PackedBatch>& packed, DType index_dtype, RowRange rows) = 0;
};

/// Expands on the calling thread, into recycled host memory.
std::shared_ptr<Device> MakeHostDevice();

}  // namespace millrace
