// The metrics of a process: a constant table of metrics, and their values at one moment. A
// component fills a MetricSet when it is asked to, and a page in Prometheus' format shows it
// (server/web/metrics_text).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/result.h"

namespace millrace {

/// In the order of MetricTable().
enum class Metric : std::size_t {
  kBuildInfo,
  kStart,
  kLeader,
  kTerm,
  kWorkers,
  kDifferingWorkers,
  kConsumers,
  kJobConsumers,
  kAsks,
  kStepsMoved,
  kRefusedRequests,
  kRefusedConnections,
  kCertificateExpiry,
  kDuplicateBatchesDropped,
  kDuplicateMismatch,
  kBatchesDelivered,
  kExamplesDelivered,
  kTokensDelivered,
  kBatchBytes,
  kBatchWireBytes,
  kBatchBuildSeconds,
  kSharedBatches,
  kCompressSeconds,
  kCacheHits,
  kCacheBuilds,
  kCacheBytes,
  kCacheEvictions,
  kCacheFailures,
  kColumnExamples,
  kPluginMemory,
  kPluginProcessMemory,
  kPluginRestarts,
  kPluginBusySeconds,
  kPluginExamples,
  kPluginDropped,
  kPluginFailedTries,
  kConsumerWaitSeconds,
  kSendBlockedSeconds,
  kPrefetchBytes,
  kMemory,
  kMemoryLimit,
  kEventSeconds,
  kStoreCommitSeconds,
  kStoreErrors,
  kFileVerifyFailures,
  kDatasetUnverified,
  kDatasetFailed,
  kExamplesDropped,
  kPiecesLost,
  kLastProgress,
  kDesiredWorkers,
  kFleetDesiredWorkers,
  kBranchPasses,
};

enum class MetricType : std::uint8_t { kCounter, kGauge, kHistogram };

/// The processes that have a metric.
enum class MetricOwner : std::uint8_t { kDispatcher, kWorker, kBoth };

/// One row of the table of metrics.
struct MetricSpec {
  bool of_dispatcher() const { return owner != MetricOwner::kWorker; }
  bool of_worker() const { return owner != MetricOwner::kDispatcher; }

  Metric metric;
  std::string name;
  MetricType type;
  MetricOwner owner;
  std::vector<std::string> labels;
  std::string help;
};
const std::vector<MetricSpec>& MetricTable();
const MetricSpec& SpecOf(Metric metric);

/// Counts durations in buckets. The upper bounds of the buckets double from 0.1 ms to 52 s. Not
/// thread-safe.
class Histogram {
 public:
  static constexpr std::size_t kBounds = 20;
  static const std::array<double, kBounds>& Bounds();

  void Observe(double seconds);
  /// Observations per bucket, not cumulative; the last entry counts observations above the last
  /// bound.
  const std::array<std::uint64_t, kBounds + 1>& counts() const { return counts_; }
  std::uint64_t count() const { return count_; }
  double sum() const { return sum_; }

 private:
  std::array<std::uint64_t, kBounds + 1> counts_{};
  std::uint64_t count_ = 0;
  double sum_ = 0;
};

/// The values of one moment. Not thread-safe.
class MetricSet {
 public:
  /// Values of the metric's labels, in their order.
  using Labels = std::vector<std::string>;

  /// Adds to the value with these labels, which is 0 at first. REQUIRES: one label value for each
  /// label of the metric, and a metric that is no histogram.
  void Add(Metric metric, Labels labels, double value);
  /// Sets a histogram. REQUIRES: one label value for each label of the metric, and a metric that is
  /// a histogram.
  void Set(Metric metric, Labels labels, const Histogram& histogram);

  const std::map<Labels, double>& values(Metric metric) const;
  const std::map<Labels, Histogram>& histograms(Metric metric) const;

 private:
  std::map<Metric, std::map<Labels, double>> values_;
  std::map<Metric, std::map<Labels, Histogram>> histograms_;
};

/// The code as the value of a label, for example "resource_exhausted".
std::string CodeLabel(StatusCode code);

}  // namespace millrace
