// A GPU as an accelerator.
//
// Several in one process, each with a session of its own, and several of one GPU are fine: every
// call selects its GPU and puts the thread's back.
#pragma once

#include <memory>

#include "client/device/accelerator.h"
#include "common/base/result.h"

namespace millrace {

/// How many GPUs this process sees; 0 where there is no driver.
int CudaDevices();

/// GPU `number` of those that this process sees. NotFound where there is none, with what the driver
/// says.
Result<std::shared_ptr<Accelerator>> MakeCudaAccelerator(int number);

}  // namespace millrace
