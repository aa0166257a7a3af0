// A GPU as an accelerator.
//
// One process may have several, each with its own session, even several for the same GPU. Every
// call selects its GPU and then restores the thread's.
#pragma once

#include <memory>

#include "client/device/accelerator.h"
#include "common/base/result.h"

namespace millrace {

/// How many GPUs this process sees; 0 if there is no driver.
int CudaDevices();

/// GPU `number` of those that this process sees. NotFound if there is no such GPU, with the
/// driver's reason.
Result<std::shared_ptr<Accelerator>> MakeCudaAccelerator(int number);

}  // namespace millrace
