#include "server/dispatcher/service/dispatcher_metrics.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "server/dispatcher/machine/status.h"
#include "server/dispatcher/machine/worker_choice.h"

namespace millrace {
namespace {

/// A training loop counts as busy for at least this part of its time, even if it only waits.
constexpr double kLeastBusy = 0.01;

/// The batches per second that a training loop takes while it does not wait; 0 if that is not
/// known.
double DemandOf(const SessionFacts& session) {
  if (session.samples.size() < 2) return 0;
  const CounterSample& first = session.samples.front();
  const CounterSample& last = session.samples.back();
  const double seconds = ToSeconds(last.at - first.at);
  if (!(seconds > 0) || last.batches <= first.batches) return 0;
  const double waited = last.waited_seconds - first.waited_seconds;
  const double busy = std::max(seconds - waited, seconds * kLeastBusy);
  return static_cast<double>(last.batches - first.batches) / busy;
}

}  // namespace

double DesiredWorkers(const std::vector<const SessionFacts*>& sessions, double worker_rate,
                      std::size_t present) {
  double demand = 0;
  for (const SessionFacts* session : sessions) {
    if (session->live && session->hello.replica() == 0) demand += DemandOf(*session);
  }
  const auto now = static_cast<double>(std::max<std::size_t>(present, 1));
  if (!(demand > 0) || !(worker_rate > 0)) return now;
  return std::clamp(std::ceil(demand / worker_rate), 1.0, 2 * now);
}

void AddDispatcherMetrics(const DispatcherMachine& dispatcher, const DispatcherOptions& options,
                          const DispatcherTally& tally, Time now, double unix_seconds,
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
  double prefetched = 0;
  for (const v1::ConsumerStatus& consumer : status.consumers()) {
    metrics.Add(Metric::kConsumers, {consumer.state()}, 1);
    prefetched += static_cast<double>(consumer.buffered_bytes());
  }
  metrics.Add(Metric::kPrefetchBytes, {}, prefetched);
  for (const v1::JobStatus& job : status.jobs()) {
    for (const v1::BranchStatus& branch : job.branches()) {
      metrics.Add(Metric::kBranchPasses, {job.name(), branch.name()}, branch.passes());
    }
  }

  tally.AddTo(metrics, now, unix_seconds);

  std::size_t present = 0;
  double rates = 0;
  std::size_t known = 0;
  for (const auto& [id, worker] : facts.workers()) {
    if (!IsHeard(worker, now, options) || worker.draining()) continue;
    ++present;
    const double rate = BatchesPerSecond(worker.report);
    if (rate > 0) ++known;
    rates += rate;
  }
  std::map<std::string, std::vector<const SessionFacts*>> jobs;
  for (const auto& [id, session] : facts.sessions()) {
    jobs[session.hello.job()].push_back(&session);
  }
  for (const auto& [job, sessions] : jobs) {
    const double rate = known == 0 ? 0 : rates / static_cast<double>(known);
    metrics.Add(Metric::kDesiredWorkers, {job}, DesiredWorkers(sessions, rate, present));
  }
}

}  // namespace millrace
