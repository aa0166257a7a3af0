#include <string>
#include <system_error>

#include <fmt/core.h>

#include "client/device/device.h"
#include "common/base/parse_number.h"
#ifdef MILLRACE_CUDA
#include "client/device/cuda_accelerator.h"
#include "client/device/slot_device.h"
#endif

namespace millrace {
namespace {

constexpr std::string_view kCuda = "cuda";

Result<std::shared_ptr<Device>> MakeGpu(int number, [[maybe_unused]] const DeviceLimits& limits) {
#ifdef MILLRACE_CUDA
  MILLRACE_ASSIGN_OR_RETURN(std::shared_ptr<Accelerator> accelerator, MakeCudaAccelerator(number));
  return MakeSlotDevice(std::move(accelerator), limits);
#else
  return Unimplemented(
      fmt::format("device cuda:{}: this build delivers to host memory only: rebuild with the "
                  "preset cuda",
                  number));
#endif
}

}  // namespace

Result<std::shared_ptr<Device>> MakeDevice(std::string_view name, const DeviceLimits& limits) {
  if (name.empty() || name == "host" || name == "cpu") return MakeHostDevice();
  if (name == kCuda) return MakeGpu(0, limits);
  if (name.starts_with(kCuda) && name.substr(kCuda.size()).starts_with(":")) {
    const Result<int> number = ParseNumber<int>(name.substr(kCuda.size() + 1), {.min = 0});
    if (number.ok()) return MakeGpu(*number, limits);
  }
  return InvalidArgument(fmt::format("device {}: expected host, or cuda:0, cuda:1, …", name));
}

}  // namespace millrace
