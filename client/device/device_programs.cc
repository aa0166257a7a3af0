#include "client/device/device_programs.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace millrace {

std::shared_ptr<DeviceProgram> DevicePrograms::Of(
    const std::shared_ptr<const internal::Computation>& all) {
  MutexLock lock(mutex_);
  const auto found = std::find_if(known_.begin(), known_.end(),
                                  [&](const Known& one) { return one.first.lock() == all; });
  if (found != known_.end()) {
    std::rotate(found, found + 1, known_.end());
    return known_.back().second;
  }
  std::erase_if(known_, [](const Known& one) { return one.first.expired(); });
  known_.emplace_back(all, std::make_shared<DeviceProgram>(*all));
  return known_.back().second;
}

std::string DevicePrograms::host_outputs() const {
  MutexLock lock(mutex_);
  if (known_.empty()) return {};
  return fmt::format("{}", fmt::join(known_.back().second->computation.host_outputs(), ", "));
}

}  // namespace millrace
