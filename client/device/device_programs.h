// The computations that a device has: for each, how host and device share it, and its constants in
// the device's memory. They are copied there once.
//
// Thread-safe.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "client/device/accelerator.h"
#include "common/base/result.h"
#include "common/expand/computation.h"
#include "common/expand/device_computation.h"
#include "common/system/mutex.h"

namespace millrace {

/// REQUIRES: it is dropped only after the work of the device that reads its constants.
class DeviceConstants {
 public:
  DeviceConstants(std::shared_ptr<Accelerator> accelerator, std::byte* data)
      : accelerator_(std::move(accelerator)), data_(data) {}
  ~DeviceConstants() { accelerator_->Free(data_); }
  DeviceConstants(const DeviceConstants&) = delete;
  DeviceConstants& operator=(const DeviceConstants&) = delete;

  std::byte* data() const { return data_; }

 private:
  const std::shared_ptr<Accelerator> accelerator_;
  std::byte* const data_;
};

/// One computation.
struct DeviceProgram {
  explicit DeviceProgram(const internal::Computation& all) : computation(all) {}

  const DeviceComputation computation;
  /// Set when their copy has been queued; null if it is not yet, or if there are no constants. Only
  /// the code that queues work on the side stream uses it, under its lock.
  std::shared_ptr<const DeviceConstants> constants;
};

class DevicePrograms {
 public:
  /// The program of a computation. It is made at the first call, and kept as long as the
  /// computation lives.
  std::shared_ptr<DeviceProgram> Of(const std::shared_ptr<const internal::Computation>& all);

  /// For people: which tensors of the last program the host computes; empty: no tensor.
  std::string host_outputs() const;

 private:
  using Known =
      std::pair<std::weak_ptr<const internal::Computation>, std::shared_ptr<DeviceProgram>>;

  mutable Mutex mutex_;
  std::vector<Known> known_ MILLRACE_GUARDED_BY(mutex_);  // the one that was used last is the last
};

}  // namespace millrace
