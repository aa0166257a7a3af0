#include "common/base/metrics.h"

#include <algorithm>
#include <cctype>

namespace millrace {
namespace {

MetricSpec MakeGauge(Metric metric, std::string name, MetricOwner owner, std::string help,
                     std::vector<std::string> labels = {}) {
  return {metric, std::move(name), MetricType::kGauge, owner, std::move(labels), std::move(help)};
}

MetricSpec MakeCounter(Metric metric, std::string name, MetricOwner owner, std::string help,
                       std::vector<std::string> labels = {}) {
  return {metric, std::move(name), MetricType::kCounter, owner, std::move(labels), std::move(help)};
}

MetricSpec MakeHistogram(Metric metric, std::string name, MetricOwner owner, std::string help,
                         std::vector<std::string> labels = {}) {
  return {metric, std::move(name),   MetricType::kHistogram,
          owner,  std::move(labels), std::move(help)};
}

}  // namespace

const std::vector<MetricSpec>& MetricTable() {
  using enum Metric;
  using enum MetricOwner;
  static const std::vector<MetricSpec> table = {
      MakeGauge(kBuildInfo, "millrace_build_info", kBoth, "1, with the version", {"version"}),
      MakeGauge(kStart, "millrace_start_timestamp_seconds", kBoth,
                "Unix time at which the process began"),
      MakeGauge(kLeader, "millrace_leader", kDispatcher, "1 if this dispatcher leads, otherwise 0"),
      MakeGauge(kTerm, "millrace_term", kDispatcher, "term of this dispatcher"),
      MakeGauge(kWorkers, "millrace_workers", kDispatcher,
                "workers by state, as in millrace status", {"state"}),
      MakeGauge(kDifferingWorkers, "millrace_differing_workers", kDispatcher,
                "workers whose copy of the dataset differs from the dispatcher's, so that they get "
                "no work of it",
                {"dataset"}),
      MakeGauge(kConsumers, "millrace_consumers", kDispatcher,
                "consumers by state, as in millrace status", {"state"}),
      MakeGauge(kJobConsumers, "millrace_job_consumers", kDispatcher,
                "live consumers of a job; replicas of a rank count as one", {"job"}),
      MakeCounter(kAsks, "millrace_asks_total", kDispatcher,
                  "steps that consumers asked of workers: first, again as a copy of a step that "
                  "was late (copy), or of a worker that builds it for a twin anyway (moved)",
                  {"kind"}),
      MakeCounter(kStepsMoved, "millrace_steps_moved_total", kDispatcher,
                  "steps that consumers took back from workers that failed them, drained or "
                  "refused the step",
                  {"reason"}),
      MakeCounter(kRefusedRequests, "millrace_refused_requests_total", kBoth,
                  "requests and streams refused, by the code of the error", {"method", "reason"}),
      MakeCounter(
          kRefusedConnections, "millrace_refused_connections_total", kBoth,
          "connections closed: too_many, silent, protocol (no TLS, or TLS where there is none), "
          "user (another user of the host) or unfinished (messages that did not end)",
          {"port", "reason"}),
      MakeGauge(kCertificateExpiry, "millrace_certificate_expiry_timestamp_seconds", kBoth,
                "Unix time at which the first of the port's certificates ends", {"port"}),
      MakeCounter(kDuplicateBatchesDropped, "millrace_duplicate_batches_dropped_total", kDispatcher,
                  "batches that came to a consumer twice"),
      MakeCounter(kDuplicateMismatch, "millrace_duplicate_mismatch_total", kDispatcher,
                  "batches that came twice and whose two copies differed: look at the consumer's "
                  "log at once"),
      MakeCounter(kBatchesDelivered, "millrace_batches_delivered_total", kDispatcher,
                  "batches that training loops took", {"job"}),
      MakeCounter(kExamplesDelivered, "millrace_examples_delivered_total", kDispatcher,
                  "examples in those batches", {"job"}),
      MakeCounter(kTokensDelivered, "millrace_tokens_delivered_total", kDispatcher,
                  "tokens in those batches: of packed rows, or of examples of token datasets; a "
                  "job with tokens has this series",
                  {"job"}),
      MakeCounter(kBatchBytes, "millrace_batch_bytes_total", kDispatcher,
                  "packed bytes of those batches", {"job"}),
      MakeCounter(kBatchWireBytes, "millrace_batch_wire_bytes_total", kDispatcher,
                  "bytes that came over a network for those batches: fewer if they were compressed",
                  {"job"}),
      MakeHistogram(kBatchBuildSeconds, "millrace_batch_build_seconds", kWorker,
                    "time of builder threads for a batch, all of them together, by stage",
                    {"stage"}),
      MakeCounter(kSharedBatches, "millrace_shared_batches_total", kWorker,
                  "batches sent without a build of their own: another consumer of the same batches "
                  "had one"),
      MakeCounter(kCompressSeconds, "millrace_compress_seconds_total", kWorker,
                  "time of threads that compressed batches for consumers who asked for that"),
      MakeCounter(kCacheHits, "millrace_cache_hits_total", kWorker,
                  "examples taken from the cache, in memory or on disk", {"level"}),
      MakeCounter(kCacheBuilds, "millrace_cache_builds_total", kWorker,
                  "examples that the cache did not have, so that they were built"),
      MakeGauge(kCacheBytes, "millrace_cache_bytes", kWorker,
                "size of the cache of examples; on disk, of all segments in the folder", {"level"}),
      MakeCounter(kCacheEvictions, "millrace_cache_evictions_total", kWorker,
                  "examples that had to go from memory, segments that had to go from disk",
                  {"level"}),
      MakeCounter(kCacheFailures, "millrace_cache_failures_total", kWorker,
                  "operations on files of cached examples that failed, and damaged records: they "
                  "cost only time"),
      MakeCounter(kColumnExamples, "millrace_columns_measured_examples_total", kWorker,
                  "examples built to measure columns"),
      MakeGauge(kPluginMemory, "millrace_plugin_memory_bytes", kWorker,
                "memory of all processes of an object of a plugin, as memory_limit counts it",
                {"object"}),
      MakeGauge(kPluginProcessMemory, "millrace_plugin_process_memory_bytes", kWorker,
                "memory of one process, as the plugin's own limit counts it",
                {"object", "process"}),
      MakeCounter(kPluginRestarts, "millrace_plugin_restarts_total", kWorker,
                  "processes started in the place of one that ended, or was ended",
                  {"object", "process"}),
      MakeCounter(kPluginBusySeconds, "millrace_plugin_busy_seconds_total", kWorker,
                  "time in which a process had a request", {"object", "process"}),
      MakeCounter(kPluginExamples, "millrace_plugin_examples_total", kWorker,
                  "examples that a plugin built", {"object", "process"}),
      MakeCounter(kPluginDropped, "millrace_plugin_dropped_examples_total", kWorker,
                  "examples that a plugin dropped", {"object", "process"}),
      MakeCounter(kPluginFailedTries, "millrace_plugin_failed_tries_total", kWorker,
                  "tries to build an example that failed", {"object", "process"}),
      MakeCounter(kConsumerWaitSeconds, "millrace_consumer_wait_seconds_total", kDispatcher,
                  "time that training loops waited, by cause", {"job", "cause"}),
      MakeCounter(kSendBlockedSeconds, "millrace_send_blocked_seconds_total", kWorker,
                  "time that built batches waited for a consumer's credit"),
      MakeGauge(kPrefetchBytes, "millrace_prefetch_bytes", kDispatcher,
                "packed bytes that consumers hold ahead of their loops"),
      MakeGauge(kMemory, "millrace_memory_bytes", kWorker,
                "memory of the process and of its plugins, as memory_limit counts it"),
      MakeGauge(kMemoryLimit, "millrace_memory_limit_bytes", kWorker, "the memory_limit in force"),
      MakeHistogram(kEventSeconds, "millrace_event_seconds", kDispatcher,
                    "time of the dispatcher's event loop for one event: messages of a peer, a "
                    "request, or a tick"),
      MakeHistogram(kStoreCommitSeconds, "millrace_store_commit_seconds", kDispatcher,
                    "time of a commit to the store", {"backend"}),
      MakeCounter(kStoreErrors, "millrace_store_errors_total", kDispatcher,
                  "commits that the store refused, by the code of the error", {"backend", "kind"}),
      MakeCounter(kFileVerifyFailures, "millrace_file_verify_failures_total", kBoth,
                  "files found bad, each time: when a dataset was opened (open; with `--skip-bad`, "
                  "those that it leaves out), or changed while it was served (served)",
                  {"kind"}),
      MakeGauge(kDatasetUnverified, "millrace_dataset_unverified_ratio", kWorker,
                "share of a dataset's bytes that were not compared with their digests yet; an open "
                "dataset has this series",
                {"dataset", "kind"}),
      MakeGauge(kDatasetFailed, "millrace_dataset_failed", kBoth,
                "1 if the dataset could not be opened, or files of it are damaged, otherwise 0",
                {"dataset"}),
      MakeCounter(kExamplesDropped, "millrace_examples_dropped_total", kDispatcher,
                  "examples missing in delivered batches, by reason; other: reasons that the plan "
                  "has no name for",
                  {"reason"}),
      MakeCounter(
          kPiecesLost, "millrace_pieces_lost_total", kDispatcher,
          "pieces of packed documents missing in delivered batches, by the reason for which "
          "their documents are dropped",
          {"job", "reason"}),
      MakeGauge(kLastProgress, "millrace_last_progress_timestamp_seconds", kDispatcher,
                "unix time at which a consumer last said that its loop took a batch", {"job"}),
      MakeGauge(kDesiredWorkers, "millrace_desired_workers", kDispatcher,
                "workers that the job needs so that its loops do not wait, as in millrace status",
                {"job"}),
      MakeGauge(kFleetDesiredWorkers, "millrace_fleet_desired_workers", kDispatcher,
                "workers that all jobs need together, as in millrace status"),
      MakeGauge(kBranchPasses, "millrace_branch_passes", kDispatcher,
                "how often a job has read a branch of its mix since epoch 0, as in millrace status",
                {"job", "branch"}),
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
