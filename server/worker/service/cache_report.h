// A worker's report on its cache of examples: to the dispatcher, and as metrics.
//
// Pure functions.
#pragma once

#include "common/base/metrics.h"
#include "millrace/v1/dispatcher.pb.h"
#include "server/plan/cache/built_examples.h"

namespace millrace {

void ToProto(const BuiltExamples::Stats& stats, v1::CacheUse& use);
void AddCacheMetrics(const BuiltExamples::Stats& stats, MetricSet& metrics);

}  // namespace millrace
