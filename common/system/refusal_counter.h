// Counts the requests that a service has refused.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "common/base/metrics.h"
#include "common/base/result.h"
#include "common/system/mutex.h"

namespace millrace {

/// Counts refused requests, by method and by the code of the error. Thread-safe.
class RefusalCounter {
 public:
  /// The counts of `methods` exist from the start, with 0.
  explicit RefusalCounter(std::vector<std::string> methods);

  /// Counts the status of one call. A status that is no refusal (ok, cancelled, unavailable or
  /// aborted) is ignored.
  void Count(const std::string& method, const Status& status);
  void AddTo(MetricSet& metrics) const;

 private:
  mutable Mutex mutex_;
  std::map<std::pair<std::string, std::string>, std::uint64_t> counts_ MILLRACE_GUARDED_BY(mutex_);
};

}  // namespace millrace
