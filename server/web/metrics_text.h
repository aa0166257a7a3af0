// Metrics as text, in the format that Prometheus reads.
//
// Free functions; thread-safe.
#pragma once

#include <string>

#include "common/base/metrics.h"

namespace millrace {

struct MetricsRoles {
  bool dispatcher = false;
  bool worker = false;
};

/// Every metric of the table that `roles` have, with type and help, even if it has no value.
std::string MetricsText(MetricsRoles roles, const MetricSet& metrics);

}  // namespace millrace
