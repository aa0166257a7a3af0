// A device with memory of its own: packed batches are copied there and expanded there.
//
//   pinned memory -- copy --> payload slot -- kernel --> slot of the delivered batch
//
// Batches are received into pinned memory, so that the device copies them by itself; those that lie
// elsewhere are copied once into pinned memory first. Copy and kernel run on the side stream of the
// accelerator, under whatever the consumer's streams do, and are done when Expand returns: no
// stream of a consumer has to wait for a batch. The other way, a consumer tells the batch's ledger
// on which streams it works; without that, the default stream counts. When the batch is dropped,
// its slot is used again after what was queued there.
//
// All batches, device and memory may be dropped in any order.
#pragma once

#include <memory>

#include "client/device/accelerator.h"
#include "client/device/device.h"

namespace millrace {

std::shared_ptr<Device> MakeSlotDevice(std::shared_ptr<Accelerator> accelerator,
                                       const DeviceLimits& limits = {});

}  // namespace millrace
