// Memory of an accelerator, and the time that queued work takes, for the parts of bench_device.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "client/device/accelerator.h"
#include "common/base/result.h"

namespace millrace::bench {

class DeviceMemory {
 public:
  DeviceMemory(std::shared_ptr<Accelerator> accelerator, std::size_t bytes)
      : accelerator_(std::move(accelerator)), data_(accelerator_->Allocate(bytes)) {}
  ~DeviceMemory() {
    if (data_ != nullptr) accelerator_->Free(data_);
  }
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  /// Null if the device had no memory left.
  std::byte* data() const { return data_; }

 private:
  const std::shared_ptr<Accelerator> accelerator_;
  std::byte* const data_;
};

inline double SecondsSince(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

inline Status WaitForAll(Accelerator& accelerator) {
  MILLRACE_ASSIGN_OR_RETURN(const auto event, accelerator.Record());
  return accelerator.Synchronize(*event);
}

/// Queues `work` `rounds` times and waits for all of it. Returns the seconds that one round took.
inline Result<double> Queued(Accelerator& accelerator, std::uint32_t rounds,
                             const std::function<Status(std::uint32_t)>& work) {
  MILLRACE_RETURN_IF_ERROR(work(0));
  MILLRACE_RETURN_IF_ERROR(WaitForAll(accelerator));
  const auto begin = std::chrono::steady_clock::now();
  for (std::uint32_t i = 0; i < rounds; ++i) MILLRACE_RETURN_IF_ERROR(work(i));
  MILLRACE_RETURN_IF_ERROR(WaitForAll(accelerator));
  return SecondsSince(begin) / rounds;
}

}  // namespace millrace::bench
