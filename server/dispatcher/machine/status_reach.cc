#include "server/dispatcher/machine/status_reach.h"

#include <set>
#include <string>
#include <string_view>

#include "server/dispatcher/machine/event_log.h"

namespace millrace {
namespace {

/// Erases the items of a repeated field for which `keep` is false.
template <class Items, class Keep>
void KeepOnly(Items& items, Keep keep) {
  Items kept;
  for (auto& item : items) {
    if (keep(item)) kept.Add()->Swap(&item);
  }
  items.Swap(&kept);
}

v1::WorkerStatus OnlyState(const v1::WorkerStatus& worker) {
  v1::WorkerStatus state;
  *state.mutable_id() = worker.id();
  state.set_state(worker.state());
  state.set_version(worker.version());
  state.set_threads(worker.threads());
  return state;
}

/// Whether events of this kind, if they are about a job, are about the job and its consumers alone.
bool NamesNoWorker(std::string_view kind) {
  return kind.starts_with("job_") || kind.starts_with("consumer_") ||
         kind == EventKindName(EventKind::kPipelineRefused) ||
         kind == EventKindName(EventKind::kBatchesDiffer) ||
         kind == EventKindName(EventKind::kListGrew) || kind == EventKindName(EventKind::kTuning);
}

void KeepOwn(v1::ServiceStatus& status, const Identity& peer) {
  std::set<std::string> jobs;
  KeepOnly(*status.mutable_jobs(), [&](const v1::JobStatus& job) {
    const bool own = job.owner() == peer.name;
    if (own) jobs.insert(job.name());
    return own;
  });
  KeepOnly(*status.mutable_consumers(),
           [&](const v1::ConsumerStatus& consumer) { return jobs.contains(consumer.job()); });
  for (v1::WorkerStatus& worker : *status.mutable_workers()) worker = OnlyState(worker);
  KeepOnly(*status.mutable_events(), [&](const v1::Event& event) {
    return jobs.contains(event.job()) && NamesNoWorker(event.kind());
  });
  status.clear_security();
  status.clear_desired_workers();
  if (!peer.datasets) return;
  auto& datasets = *status.mutable_datasets();
  for (auto it = datasets.begin(); it != datasets.end();) {
    it = peer.datasets->contains(it->first) ? std::next(it) : datasets.erase(it);
  }
}

}  // namespace

void Restrict(v1::ServiceStatus& status, Reach reach, const Identity& peer) {
  switch (reach) {
    case Reach::kAll:
      return;
    case Reach::kAllButPipelines:
      for (v1::JobStatus& job : *status.mutable_jobs()) {
        job.clear_pipeline_yaml();
        job.clear_variant();
      }
      for (v1::Event& event : *status.mutable_events()) {
        if (event.kind() != EventKindName(EventKind::kPipelineRefused)) continue;
        event.set_text("A pipeline or cursor was refused; operators see why.");
      }
      return;
    case Reach::kOwn:
      return KeepOwn(status, peer);
    case Reach::kNone:
      status.Clear();
  }
}

}  // namespace millrace
