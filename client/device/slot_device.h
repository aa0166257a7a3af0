// A device with its own memory: packed batches are copied there, and expanded there. Tensors that a
// pipeline computes are made there too, from the same payload, as far as the device can do that
// (common/expand/device_computation.h). The host makes the others, which are copied.
//
//   pinned memory -- copy --> payload slot -- kernels --> slot of the delivered batch
//   tensors of the host -- copy ----------------------------^
//
// Batches are received into pinned memory, so that the device can copy them on its own. A batch in
// other memory is first copied once into pinned memory. Copies and kernels run on the side stream
// of the accelerator, at the same time as the consumer's streams, and are done when Expand returns.
// So no stream of a consumer has to wait for a batch. In the other direction, a consumer tells the
// batch's ledger on which streams it works; by default that is the default stream. When the batch
// is dropped, its slot is used again only after the work that was queued on these streams.
//
// The batches, the device and the memory may be dropped in any order.
#pragma once

#include <memory>

#include "client/device/accelerator.h"
#include "client/device/device.h"

namespace millrace {

std::shared_ptr<Device> MakeSlotDevice(std::shared_ptr<Accelerator> accelerator,
                                       const DeviceLimits& limits = {});

}  // namespace millrace
