// A device of the host's memory, for tests.
#pragma once

#include <memory>
#include <vector>

#include "client/device/slot_device.h"
#include "common/batch/arena.h"
#include "common/expand/expand.h"
#include "tests/support/host_accelerator.h"
#include "tests/unit/common/expand/compare_batches.h"

namespace millrace::test {

using Batches = std::vector<std::shared_ptr<const PackedBatch>>;

/// A device on the processor's accelerator, and a pool of its pinned memory for received batches.
struct TestDevice {
  explicit TestDevice(const HostAcceleratorOptions& options = {}, DeviceLimits limits = {})
      : accelerator(std::make_shared<HostAccelerator>(options)),
        device(MakeSlotDevice(accelerator, limits)),
        received(1 << 20, device->receive_memory()) {}

  Result<std::shared_ptr<const DeliveredBatch>> Expand(
      const std::shared_ptr<const PackedBatch>& packed, DType index_dtype = DType::kInt32) {
    return device->Expand(packed, index_dtype, {0, packed->examples()});
  }

  std::shared_ptr<HostAccelerator> accelerator;
  std::shared_ptr<Device> device;
  BufferPool received;
};

}  // namespace millrace::test
