#include "server/dispatcher/service/dispatcher_metrics.h"

#include "server/dispatcher/machine/status.h"

namespace millrace {
namespace {

/// Whether the worker has opened a dataset of this id, and it is another one than `here`.
bool Differs(const Worker& worker, const std::string& id, const v1::DatasetState& here) {
  const auto there = worker.report.datasets().find(id);
  return there != worker.report.datasets().end() && !there->second.digest().empty() &&
         there->second.digest() != here.digest();
}

/// Counts the differing workers of each dataset that is open here.
void AddDifferingWorkers(const DispatcherFacts& facts, MetricSet& metrics) {
  for (const auto& [id, here] : facts.datasets()) {
    if (here.digest().empty()) continue;
    double differing = 0;
    for (const auto& [number, worker] : facts.workers()) differing += Differs(worker, id, here);
    metrics.Add(Metric::kDifferingWorkers, {id}, differing);
  }
}

}  // namespace

void AddDispatcherMetrics(const DispatcherMachine& dispatcher, const DispatcherOptions& options,
                          const DispatcherCounters& counters, Time now, double unix_seconds,
                          MetricSet& metrics) {
  const DispatcherFacts& facts = dispatcher.facts();
  metrics.Add(Metric::kLeader, {}, dispatcher.stepped_down().ok() ? 1 : 0);
  metrics.Add(Metric::kTerm, {}, static_cast<double>(facts.term()));

  for (const char* s : {"ready", "preparing", "draining", "silent"}) {
    metrics.Add(Metric::kWorkers, {s}, 0);
  }
  for (const char* s : {"waiting", "live", "silent"}) metrics.Add(Metric::kConsumers, {s}, 0);
  const v1::ServiceStatus status = BuildStatus(dispatcher, options, now);
  for (const v1::WorkerStatus& worker : status.workers()) {
    metrics.Add(Metric::kWorkers, {worker.state()}, 1);
  }
  AddDifferingWorkers(facts, metrics);
  double prefetched = 0;
  for (const v1::ConsumerStatus& consumer : status.consumers()) {
    metrics.Add(Metric::kConsumers, {consumer.state()}, 1);
    if (consumer.state() == "live" && consumer.replica() == 0) {
      metrics.Add(Metric::kJobConsumers, {consumer.job()}, 1);
    }
    prefetched += static_cast<double>(consumer.buffered_bytes());
  }
  metrics.Add(Metric::kPrefetchBytes, {}, prefetched);
  for (const v1::JobStatus& job : status.jobs()) {
    for (const v1::BranchStatus& branch : job.branches()) {
      metrics.Add(Metric::kBranchPasses, {job.name(), branch.name()}, branch.passes());
    }
  }

  counters.AddTo(metrics, now, unix_seconds);

  const DesiredWorkers& desired = dispatcher.desired_workers();
  // An autoscaler keeps the workers that it has while there is no figure.
  if (desired.is_settling()) return;
  for (const auto& [job, figure] : desired.Jobs()) {
    metrics.Add(Metric::kDesiredWorkers, {job}, figure.workers);
  }
  metrics.Add(Metric::kFleetDesiredWorkers, {}, desired.fleet().workers);
}

}  // namespace millrace
