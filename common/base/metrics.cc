#include "common/base/metrics.h"

#include <algorithm>
#include <cctype>

namespace millrace {

const std::vector<MetricSpec>& MetricTable() {
  using enum Metric;
  using enum MetricType;
  static const std::vector<MetricSpec> table = {
      {kBuildInfo, "millrace_build_info", kGauge, true, true, {"version"}, "1, with the version"},
      {kLeader,
       "millrace_leader",
       kGauge,
       true,
       false,
       {},
       "1 if this dispatcher leads, otherwise 0"},
      {kTerm, "millrace_term", kGauge, true, false, {}, "term of this dispatcher"},
      {kWorkers,
       "millrace_workers",
       kGauge,
       true,
       false,
       {"state"},
       "workers by state, as in millrace status"},
      {kConsumers,
       "millrace_consumers",
       kGauge,
       true,
       false,
       {"state"},
       "consumers by state, as in millrace status"},
      {kLeasesGranted,
       "millrace_leases_granted_total",
       kCounter,
       true,
       false,
       {},
       "shards leased to workers"},
      {kLeasesMoved,
       "millrace_leases_moved_total",
       kCounter,
       true,
       false,
       {"reason"},
       "shards leased again: the consumer named failing workers, waited for a late one, or never "
       "heard of the lease (lost)"},
      {kSelfLeases,
       "millrace_self_leases_total",
       kCounter,
       true,
       false,
       {},
       "leases that consumers gave to themselves while no dispatcher did"},
      {kRefusedRequests,
       "millrace_refused_requests_total",
       kCounter,
       true,
       true,
       {"method", "reason"},
       "requests and streams refused, by the code of the error"},
      {kRefusedConnections,
       "millrace_refused_connections_total",
       kCounter,
       true,
       true,
       {"port", "reason"},
       "connections closed: too_many, silent, protocol (no TLS, or TLS where there is none), user "
       "(another user of the host) or unfinished (messages that did not end)"},
      {kCertificateExpiry,
       "millrace_certificate_expiry_timestamp_seconds",
       kGauge,
       true,
       true,
       {"port"},
       "Unix time at which the first of the port's certificates ends"},
      {kDuplicateBatchesDropped,
       "millrace_duplicate_batches_dropped_total",
       kCounter,
       true,
       false,
       {},
       "batches that came to a consumer twice"},
      {kDuplicateMismatch,
       "millrace_duplicate_mismatch_total",
       kCounter,
       true,
       false,
       {},
       "batches that came twice and whose two copies differed: look at the consumer's log at "
       "once"},
      {kBatchesDelivered,
       "millrace_batches_delivered_total",
       kCounter,
       true,
       false,
       {"job"},
       "batches that training loops took"},
      {kExamplesDelivered,
       "millrace_examples_delivered_total",
       kCounter,
       true,
       false,
       {"job"},
       "examples in those batches"},
      {kBatchBytes,
       "millrace_batch_bytes_total",
       kCounter,
       true,
       false,
       {"job"},
       "packed bytes of those batches"},
      {kBatchBuildSeconds,
       "millrace_batch_build_seconds",
       kHistogram,
       false,
       true,
       {"stage"},
       "time of a builder thread for a batch, by stage"},
      {kSharedBatches,
       "millrace_shared_batches_total",
       kCounter,
       false,
       true,
       {},
       "batches sent without a build of their own: another consumer of the same batches had one"},
      {kCacheHits,
       "millrace_cache_hits_total",
       kCounter,
       false,
       true,
       {"level"},
       "examples taken from the cache, in memory or on disk"},
      {kCacheBuilds,
       "millrace_cache_builds_total",
       kCounter,
       false,
       true,
       {},
       "examples that the cache did not have, so that they were built"},
      {kCacheBytes,
       "millrace_cache_bytes",
       kGauge,
       false,
       true,
       {"level"},
       "size of the cache of examples; on disk, of all segments in the folder"},
      {kCacheEvictions,
       "millrace_cache_evictions_total",
       kCounter,
       false,
       true,
       {"level"},
       "examples that had to go from memory, segments that had to go from disk"},
      {kCacheFailures,
       "millrace_cache_failures_total",
       kCounter,
       false,
       true,
       {},
       "operations on files of cached examples that failed, and damaged records: they cost only "
       "time"},
      {kColumnExamples,
       "millrace_columns_measured_examples_total",
       kCounter,
       false,
       true,
       {},
       "examples built to measure columns"},
      {kPluginMemory,
       "millrace_plugin_memory_bytes",
       kGauge,
       false,
       true,
       {"object"},
       "memory of all processes of an object of a plugin, as memory_limit counts it"},
      {kPluginProcessMemory,
       "millrace_plugin_process_memory_bytes",
       kGauge,
       false,
       true,
       {"object", "process"},
       "memory of one process, as the plugin's own limit counts it"},
      {kPluginRestarts,
       "millrace_plugin_restarts_total",
       kCounter,
       false,
       true,
       {"object", "process"},
       "processes started in the place of one that ended, or was ended"},
      {kPluginBusySeconds,
       "millrace_plugin_busy_seconds_total",
       kCounter,
       false,
       true,
       {"object", "process"},
       "time in which a process had a request"},
      {kPluginExamples,
       "millrace_plugin_examples_total",
       kCounter,
       false,
       true,
       {"object", "process"},
       "examples that a plugin built"},
      {kPluginDropped,
       "millrace_plugin_dropped_examples_total",
       kCounter,
       false,
       true,
       {"object", "process"},
       "examples that a plugin dropped"},
      {kPluginFailedTries,
       "millrace_plugin_failed_tries_total",
       kCounter,
       false,
       true,
       {"object", "process"},
       "tries to build an example that failed"},
      {kConsumerWaitSeconds,
       "millrace_consumer_wait_seconds_total",
       kCounter,
       true,
       false,
       {"job", "cause"},
       "time that training loops waited, by cause"},
      {kSendBlockedSeconds,
       "millrace_send_blocked_seconds_total",
       kCounter,
       false,
       true,
       {},
       "time that built batches waited for a consumer's credit"},
      {kPrefetchBytes,
       "millrace_prefetch_bytes",
       kGauge,
       true,
       false,
       {},
       "packed bytes that consumers hold ahead of their loops"},
      {kStoreCommitSeconds,
       "millrace_store_commit_seconds",
       kHistogram,
       true,
       false,
       {"backend"},
       "time of a commit to the store"},
      {kStoreErrors,
       "millrace_store_errors_total",
       kCounter,
       true,
       false,
       {"backend", "kind"},
       "commits that the store refused, by the code of the error"},
      {kFileVerifyFailures,
       "millrace_file_verify_failures_total",
       kCounter,
       true,
       true,
       {"kind"},
       "files found bad, each time: when a dataset was opened (open; with `--skip-bad`, those that "
       "it leaves "
       "out), or changed while it was served (served)"},
      {kDatasetUnverified,
       "millrace_dataset_unverified_ratio",
       kGauge,
       false,
       true,
       {"dataset", "kind"},
       "share of a dataset's bytes that were not compared with their digests yet; an open dataset "
       "has this series"},
      {kExamplesDropped,
       "millrace_examples_dropped_total",
       kCounter,
       true,
       false,
       {"reason"},
       "examples missing in delivered batches, by reason; other: reasons that the plan has no name "
       "for"},
      {kLastProgress,
       "millrace_last_progress_timestamp_seconds",
       kGauge,
       true,
       false,
       {"job"},
       "unix time at which a consumer last said that its loop took a batch"},
      {kDesiredWorkers,
       "millrace_desired_workers",
       kGauge,
       true,
       false,
       {"job"},
       "workers that the job needs so that its loops do not wait, as in millrace status"},
      {kFleetDesiredWorkers,
       "millrace_fleet_desired_workers",
       kGauge,
       true,
       false,
       {},
       "workers that all jobs need together, as in millrace status"},
      {kBranchPasses,
       "millrace_branch_passes",
       kGauge,
       true,
       false,
       {"job", "branch"},
       "how often a job has read a branch of its mix since epoch 0, as in millrace status"},
  };
  return table;
}

const MetricSpec& SpecOf(Metric metric) { return MetricTable()[static_cast<std::size_t>(metric)]; }

const std::array<double, Histogram::kBounds>& Histogram::Bounds() {
  static const std::array<double, kBounds> bounds = [] {
    std::array<double, kBounds> made{};
    double bound = 1e-4;
    for (double& b : made) {
      b = bound;
      bound *= 2;
    }
    return made;
  }();
  return bounds;
}

void Histogram::Observe(double seconds) {
  const auto& bounds = Bounds();
  const auto bucket = std::lower_bound(bounds.begin(), bounds.end(), seconds) - bounds.begin();
  ++counts_[static_cast<std::size_t>(bucket)];
  ++count_;
  sum_ += seconds;
}

void MetricSet::Add(Metric metric, Labels labels, double value) {
  values_[metric][std::move(labels)] += value;
}

void MetricSet::Set(Metric metric, Labels labels, const Histogram& histogram) {
  histograms_[metric].insert_or_assign(std::move(labels), histogram);
}

const std::map<MetricSet::Labels, double>& MetricSet::values(Metric metric) const {
  static const std::map<Labels, double> none;
  const auto found = values_.find(metric);
  return found == values_.end() ? none : found->second;
}

const std::map<MetricSet::Labels, Histogram>& MetricSet::histograms(Metric metric) const {
  static const std::map<Labels, Histogram> none;
  const auto found = histograms_.find(metric);
  return found == histograms_.end() ? none : found->second;
}

std::string CodeLabel(StatusCode code) {
  std::string label(StatusCodeName(code));
  for (char& c : label) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return label;
}

}  // namespace millrace
