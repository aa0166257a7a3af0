#include "common/system/refusal_counter.h"

namespace millrace {

RefusalCounter::RefusalCounter(std::vector<std::string> methods) {
  for (std::string& method : methods) {
    for (const StatusCode code :
         {StatusCode::kInvalidArgument, StatusCode::kFailedPrecondition,
          StatusCode::kResourceExhausted, StatusCode::kNotFound, StatusCode::kDeadlineExceeded}) {
      counts_[{method, CodeLabel(code)}] = 0;
    }
  }
}

void RefusalCounter::Count(const std::string& method, const Status& status) {
  switch (status.code()) {
    case StatusCode::kOk:
    case StatusCode::kCancelled:
    case StatusCode::kUnavailable:
    case StatusCode::kAborted:
      return;
    default:
      break;
  }
  MutexLock lock(mutex_);
  ++counts_[{method, CodeLabel(status.code())}];
}

void RefusalCounter::AddTo(MetricSet& metrics) const {
  MutexLock lock(mutex_);
  for (const auto& [key, count] : counts_) {
    metrics.Add(Metric::kRefusedRequests, {key.first, key.second}, static_cast<double>(count));
  }
}

}  // namespace millrace
