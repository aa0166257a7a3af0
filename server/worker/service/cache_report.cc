#include "server/worker/service/cache_report.h"

namespace millrace {

void ToProto(const BuiltExamples::Stats& stats, v1::CacheUse& use) {
  const MemoryCacheStats& memory = stats.cache.memory;
  use.set_memory_hits(memory.hits);
  use.set_builds(stats.builds);
  use.set_memory_bytes(memory.bytes);
  use.set_memory_limit_bytes(memory.limit_bytes);
  use.set_memory_evictions(memory.evictions);
  if (!stats.cache.disk) return;
  use.set_disk_hits(stats.cache.disk->hits);
  use.set_disk_bytes(stats.cache.disk->bytes);
  use.set_disk_limit_bytes(stats.cache.disk->limit_bytes);
  use.set_disk_evictions(stats.cache.disk->evictions);
  use.set_disk_failures(stats.cache.disk->failures);
}

void AddCacheMetrics(const BuiltExamples::Stats& stats, MetricSet& metrics) {
  const auto add = [&](Metric metric, MetricSet::Labels labels, std::uint64_t value) {
    metrics.Add(metric, std::move(labels), static_cast<double>(value));
  };
  add(Metric::kCacheBuilds, {}, stats.builds);
  add(Metric::kCacheFailures, {}, stats.cache.disk ? stats.cache.disk->failures : 0);
  add(Metric::kCacheHits, {"memory"}, stats.cache.memory.hits);
  add(Metric::kCacheBytes, {"memory"}, stats.cache.memory.bytes);
  add(Metric::kCacheEvictions, {"memory"}, stats.cache.memory.evictions);
  if (!stats.cache.disk) return;
  add(Metric::kCacheHits, {"disk"}, stats.cache.disk->hits);
  add(Metric::kCacheBytes, {"disk"}, stats.cache.disk->bytes);
  add(Metric::kCacheEvictions, {"disk"}, stats.cache.disk->evictions);
}

}  // namespace millrace
