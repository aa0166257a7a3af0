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

/// Counts what was refused, by the method and the code of the error. Thread-safe.
class RefusalCounter {
 public:
  /// `methods` are there from the start, with 0.
  explicit RefusalCounter(std::vector<std::string> methods);

  /// Nothing for a status that is no refusal: ok, cancelled, unavailable or aborted.
  void Count(const std::string& method, const Status& status);
  void AddTo(MetricSet& metrics) const;

 private:
  mutable Mutex mutex_;
  std::map<std::pair<std::string, std::string>, std::uint64_t> counts_ MILLRACE_GUARDED_BY(mutex_);
};

}  // namespace millrace
