#include "server/worker/service/plugin_report.h"

#include <algorithm>
#include <string>
#include <utility>

namespace millrace {

void ToProto(std::span<const PluginPoolStats> pools, v1::WorkRequest& report) {
  int processes = 0;
  for (const PluginPoolStats& pool : pools) {
    processes += std::max(1, static_cast<int>(pool.processes.size()));
    if (processes > kMostReportedProcesses) return;
    v1::PluginUse& use = *report.add_plugins();
    use.set_object(pool.object);
    use.set_memory_bytes(pool.memory_bytes);
    for (const PluginProcessStats& stats : pool.processes) {
      v1::PluginProcess& process = *use.add_processes();
      process.set_process(static_cast<std::uint64_t>(stats.process));
      process.set_restarts(stats.restarts);
      process.set_memory_bytes(stats.memory_bytes);
      process.set_busy_seconds(stats.busy_seconds);
      process.set_examples(stats.examples);
      process.set_dropped(stats.dropped);
      process.set_failed(stats.failed);
    }
  }
}

void AddPluginMetrics(std::span<const PluginPoolStats> pools, MetricSet& metrics) {
  for (const PluginPoolStats& pool : pools) {
    metrics.Add(Metric::kPluginMemory, {pool.object}, static_cast<double>(pool.memory_bytes));
    for (std::size_t i = 0; i < pool.processes.size(); ++i) {
      const PluginProcessStats& stats = pool.processes[i];
      const auto add = [&](Metric metric, double value) {
        metrics.Add(metric, {pool.object, std::to_string(i)}, value);
      };
      add(Metric::kPluginRestarts, static_cast<double>(stats.restarts));
      add(Metric::kPluginProcessMemory, static_cast<double>(stats.memory_bytes));
      add(Metric::kPluginBusySeconds, stats.busy_seconds);
      add(Metric::kPluginExamples, static_cast<double>(stats.examples));
      add(Metric::kPluginDropped, static_cast<double>(stats.dropped));
      add(Metric::kPluginFailedTries, static_cast<double>(stats.failed));
    }
  }
}

std::vector<PoolUse> UseOfPools(std::span<const PluginPoolStats> pools) {
  std::vector<PoolUse> uses;
  for (const PluginPoolStats& pool : pools) {
    PoolUse& use = uses.emplace_back();
    use.number = pool.number;
    use.object = pool.object;
    use.places = static_cast<int>(pool.processes.size());
    use.processes_given = pool.processes_given;
    use.memory_bytes = pool.memory_bytes;
    for (const PluginProcessStats& process : pool.processes) {
      use.running += process.process != 0 ? 1 : 0;
      use.starting += process.is_starting ? 1 : 0;
      use.busy_seconds += process.busy_seconds;
    }
  }
  return uses;
}

std::uint64_t MemoryOf(std::span<const PluginPoolStats> pools) {
  std::uint64_t bytes = 0;
  for (const PluginPoolStats& pool : pools) bytes += pool.memory_bytes;
  return bytes;
}

}  // namespace millrace
