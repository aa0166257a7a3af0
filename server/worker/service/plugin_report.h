// A worker's report on the processes of its plugins: to the dispatcher, and as metrics.
//
// Pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/base/metrics.h"
#include "millrace/v1/dispatcher.pb.h"
#include "server/plugin/plugin_stats.h"
#include "server/worker/machine/pool_use.h"

namespace millrace {

/// The most processes that a report names; a dispatcher takes no more. Further ones are left out.
inline constexpr int kMostReportedProcesses = 4096;

void ToProto(std::span<const PluginPoolStats> pools, v1::WorkRequest& report);
/// Pools of one object with different arguments are added up.
void AddPluginMetrics(std::span<const PluginPoolStats> pools, MetricSet& metrics);
std::vector<PoolUse> UseOfPools(std::span<const PluginPoolStats> pools);
/// The memory of all pools together, in bytes.
std::uint64_t MemoryOf(std::span<const PluginPoolStats> pools);

}  // namespace millrace
