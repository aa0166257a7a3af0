#include "server/dispatcher/machine/fleet.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "common/base/mutant.h"
#include "common/batch/layout/semantics.h"
#include "server/dispatcher/machine/asked_plans.h"
#include "server/dispatcher/machine/event_texts.h"
#include "server/dispatcher/machine/hello_check.h"
#include "server/dispatcher/machine/plan_data.h"
#include "server/dispatcher/machine/usable_workers.h"

namespace millrace {
namespace {

std::string Describe(const Worker& worker) {
  return fmt::format("{} ({}, {})", worker.report.name(), worker.report.self().address(),
                     worker.id.ToString());
}

bool Builds(const Worker& worker, std::uint32_t semantics) {
  const auto& versions = worker.report.semantics();
  return versions.empty() ||
         std::find(versions.begin(), versions.end(), semantics) != versions.end();
}

/// Whether a worker has all datasets of a plan, each with the plan's data.
bool HasData(const Worker& worker, const PlanFacts& plan) {
  const std::vector<PlanDataset>& datasets = plan.datasets();
  const auto end = IsMutant(Mutant::kFirstDatasetOnly) ? datasets.begin() + 1 : datasets.end();
  return std::all_of(datasets.begin(), end, [&worker](const PlanDataset& dataset) {
    const DataState state = StateOf(worker.report, dataset);
    return state == DataState::kSame ||
           (state != DataState::kAbsent && IsMutant(Mutant::kDataDigestIgnored));
  });
}

bool SameDigests(const v1::WorkRequest& a, const v1::WorkRequest& b) {
  return a.datasets_size() == b.datasets_size() &&
         std::all_of(a.datasets().begin(), a.datasets().end(), [&b](const auto& entry) {
           const auto other = b.datasets().find(entry.first);
           return other != b.datasets().end() && other->second.digest() == entry.second.digest();
         });
}

/// Whether a response only repeats what the worker reports itself.
bool SaysNothingNew(const Worker& worker, const v1::WorkResponse& response) {
  std::set<std::string> has;
  std::set<std::string> shall_have;
  for (const auto& plan : worker.report.plans()) has.insert(plan.fingerprint());
  for (const auto& plan : response.plans()) shall_have.insert(plan.fingerprint());
  return has == shall_have && response.list_files().empty() && response.measure().empty() &&
         response.dataset_differences().empty() &&
         (!response.drain() || worker.report.draining()) && !response.undrain() &&
         WorkerId(FromProto(worker.report.id())) == worker.id;
}

}  // namespace

void Fleet::OnReport(StreamId stream, const v1::WorkRequest& request) {
  Result<WorkerId> recognised = Recognise(request);
  if (!recognised.ok()) {
    transition_.Note({.kind = EventKind::kWorkerRefused,
                      .text = fmt::format("{} was refused: {}", WorkerSubject(request),
                                          recognised.status().message()),
                      .peer = request.name()});
    return transition_.Close(stream, recognised.status());
  }
  const WorkerId id = *recognised;
  const Worker& worker = *facts_.FindWorker(id);
  if (worker.stream != stream) {
    transition_.Close(worker.stream, Cancelled("the worker has opened a newer stream"));
  }
  // Only these changes are answered now. All others can wait for the next heartbeat.
  const bool answer = worker.stream != stream || !SameDigests(worker.report, request);
  const Duration silence = transition_.now() - worker.heard;
  v1::WorkRequest report = Trimmed(request);
  std::vector<NewEvent> events = EventsOf(worker, report);
  transition_.Apply(WorkerReported{id, std::move(report), stream, transition_.now()});
  for (NewEvent& event : events) transition_.Note(std::move(event));
  if (lost_.erase(id) > 0) {
    transition_.Note({.kind = EventKind::kWorkerReturned,
                      .text = fmt::format("{} is back: it had said nothing for {:.0f} s",
                                          WorkerSubject(request), ToSeconds(silence)),
                      .peer = request.name()});
  }
  if (request.bye()) {
    transition_.Note({.kind = EventKind::kWorkerLeft,
                      .text = WorkerSubject(request) + " left in order",
                      .peer = request.name()});
    return Drop(id);
  }
  CompareFiles(id, request);
  const bool measures = columns_.OnReport(id, request);
  if (answer || measures) Respond(worker);
}

Result<WorkerId> Fleet::Recognise(const v1::WorkRequest& request) {
  const WorkerId brought(FromProto(request.id()));
  const Worker* known = facts_.FindWorker(brought);
  if (known == nullptr || known->report.nonce() != request.nonce()) {
    known = facts_.FindWorkerByNonce(request.nonce());
  }
  if (known != nullptr) return known->id;
  if (facts_.workers().size() >= options_.max_workers) {
    return ResourceExhausted(
        fmt::format("the dispatcher has {} workers, its limit: retry in {:.0f} s",
                    options_.max_workers, ToSeconds(options_.retry)));
  }
  const bool keeps = brought.is_set() && facts_.FindWorker(brought) == nullptr;
  const WorkerId id = keeps ? brought : WorkerId(transition_.NewNumber());
  transition_.Apply(WorkerJoined{id, request.nonce()});
  transition_.Log(
      LogLevel::kInfo, "worker joined",
      {{"worker", id.ToString()}, {"name", request.name()}, {"address", request.self().address()}});
  transition_.Note({.kind = EventKind::kWorkerJoined,
                    .text = WorkerSubject(request) + " joined",
                    .peer = request.name()});
  return id;
}

void Fleet::CompareFiles(WorkerId id, const v1::WorkRequest& request) {
  const Worker& worker = *facts_.FindWorker(id);
  for (const auto& [dataset, there] : request.datasets()) {
    const auto here = facts_.datasets().find(dataset);
    if (here == facts_.datasets().end() || there.file_list_size() == 0) continue;
    if (there.digest().empty() || there.digest() == here->second.digest()) continue;
    std::string text = FirstDifference(here->second, there);
    if (text.empty()) text = "the files are the same, but not the version of the index";
    transition_.Log(LogLevel::kWarning, "dataset differs",
                    {{"worker", worker.report.name()}, {"dataset", dataset}, {"difference", text}});
    transition_.Note({.kind = EventKind::kDigestsDiffer,
                      .text = fmt::format("{} has another dataset {} than the dispatcher, and gets "
                                          "no work of it: {}",
                                          WorkerSubject(worker.report), dataset, text),
                      .peer = worker.report.name()});
    transition_.Apply(WorkerDiffers{id, dataset, {there.digest(), text}});
  }
}

void Fleet::Respond(const Worker& worker) {
  if (worker.stream != 0) transition_.Do(SendWork{worker.stream, ResponseTo(worker)});
}

v1::WorkResponse Fleet::ResponseTo(const Worker& worker) const {
  v1::WorkResponse response;
  response.set_term(facts_.term());
  ToProto(worker.id, response.mutable_id());
  response.set_drain(worker.drained);
  response.set_undrain(worker.undrained);

  std::set<std::string> told;  // several texts may give the same plan
  for (const auto& [key, plan] : facts_.plans()) {
    if (plan.phase != RequestedPlan::Phase::kReady || !Builds(worker, kSemantics)) continue;
    if (!HasData(worker, *plan.facts)) continue;
    if (!told.insert(plan.fingerprint).second) continue;
    v1::PlanSpec& spec = *response.add_plans();
    spec.set_fingerprint(plan.fingerprint);
    for (const PlanDataset& dataset : plan.facts->datasets()) spec.add_datasets(dataset.id);
    *spec.mutable_pipeline() = plan.pipeline;
    spec.set_code(plan.facts->code());
  }
  for (const auto& [key, plan] : facts_.plans()) {
    if (plan.phase != RequestedPlan::Phase::kAsking || !CanBeAsked(worker, plan)) continue;
    v1::PlanSpec& spec = *response.add_plans();
    spec.set_fingerprint(plan.question);
    *spec.mutable_pipeline() = plan.pipeline;
    spec.set_asked(true);
  }
  KeepUnknownPlans(worker, told, response);
  columns_.AddTasks(worker, response);

  for (const auto& [id, there] : worker.report.datasets()) {
    const auto here = facts_.datasets().find(id);
    if (here == facts_.datasets().end() || here->second.digest().empty() ||
        there.digest().empty() || there.digest() == here->second.digest()) {
      continue;
    }
    const auto known = worker.differences.find(id);
    if (known != worker.differences.end() && known->second.digest == there.digest()) {
      (*response.mutable_dataset_differences())[id] = known->second.text;
    } else if (here->second.file_list_size() > 0) {
      response.add_list_files(id);
    }
  }
  return response;
}

void Fleet::KeepUnknownPlans(const Worker& worker, std::set<std::string>& told,
                             v1::WorkResponse& response) const {
  if (transition_.now() - facts_.booted() >= options_.plan_linger) return;
  for (const auto& plan : worker.report.plans()) {
    if (plan.phase() == v1::FAILED || !told.insert(plan.fingerprint()).second) continue;
    for (const auto& [job, record] : facts_.records()) {
      if (record.ended() || record.fingerprint() != plan.fingerprint()) continue;
      v1::PlanSpec& spec = *response.add_plans();
      spec.set_fingerprint(plan.fingerprint());
      *spec.mutable_pipeline() = record.pipeline();
      break;
    }
  }
}

void Fleet::RespondAll() {
  for (const auto& [id, worker] : facts_.workers()) Respond(worker);
}

void Fleet::Drop(WorkerId id) {
  const Worker& worker = *facts_.FindWorker(id);
  transition_.Log(LogLevel::kInfo, "worker left",
                  {{"worker", id.ToString()}, {"name", worker.report.name()}});
  transition_.Close(worker.stream, OkStatus());
  transition_.Apply(WorkerLeft{id});
  lost_.erase(id);
}

Result<const Worker*> Fleet::Named(const std::string& name) const {
  std::vector<const Worker*> meant;
  std::vector<std::string> all;
  for (const auto& [id, worker] : facts_.workers()) {
    all.push_back(Describe(worker));
    if (!name.empty() && (name == worker.report.name() || name == id.ToString() ||
                          name == worker.report.self().address())) {
      meant.push_back(&worker);
    }
  }
  // A worker that was killed is listed for a while beside the one that took its place.
  if (std::any_of(meant.begin(), meant.end(), [](const Worker* w) { return w->stream != 0; })) {
    std::erase_if(meant, [](const Worker* w) { return w->stream == 0; });
  }
  if (meant.empty()) {
    return NotFound(fmt::format("no worker '{}': there are {}", name,
                                all.empty() ? "none" : fmt::format("{}", fmt::join(all, "; "))));
  }
  if (meant.size() > 1) {
    return FailedPrecondition(
        fmt::format("{} workers are called '{}': use the address or number, of {}", meant.size(),
                    name, fmt::join(all, "; ")));
  }
  return meant[0];
}

Result<v1::DrainWorkerResponse> Fleet::Drain(const std::string& name) {
  MILLRACE_ASSIGN_OR_RETURN(const Worker* named, Named(name));
  const Worker& worker = *named;
  transition_.Log(LogLevel::kInfo, "worker drains", {{"worker", worker.id.ToString()}});
  if (!worker.draining()) {
    transition_.Note({.kind = EventKind::kWorkerDraining,
                      .text = WorkerSubject(worker.report) + " drains, as an operator has asked",
                      .peer = worker.report.name()});
  }
  transition_.Apply(WorkerDrained{worker.id});
  Respond(worker);
  v1::DrainWorkerResponse response;
  ToProto(worker.id, response.mutable_id());
  return response;
}

Result<v1::UndrainWorkerResponse> Fleet::Undrain(const std::string& name) {
  MILLRACE_ASSIGN_OR_RETURN(const Worker* named, Named(name));
  const Worker& worker = *named;
  if (!worker.draining()) {
    return FailedPrecondition(fmt::format("worker {} does not drain", Describe(worker)));
  }
  transition_.Log(LogLevel::kInfo, "worker shall drain no more",
                  {{"worker", worker.id.ToString()}});
  transition_.Apply(WorkerUndrained{worker.id});
  Respond(worker);
  v1::UndrainWorkerResponse response;
  ToProto(worker.id, response.mutable_id());
  return response;
}

void Fleet::Tick() {
  std::vector<WorkerId> silent;
  std::vector<WorkerId> forgotten;
  for (const auto& [id, worker] : facts_.workers()) {
    const Duration silence = transition_.now() - worker.heard;
    if (silence >= options_.worker_silence && !lost_.contains(id)) silent.push_back(id);
    if (silence >= options_.worker_timeout) forgotten.push_back(id);
  }
  NoteLost(silent);
  for (const WorkerId id : forgotten) Drop(id);
}

void Fleet::NoteLost(const std::vector<WorkerId>& ids) {
  for (const WorkerId id : ids) {
    lost_.insert(id);
    const Worker& worker = *facts_.FindWorker(id);
    transition_.Note({.kind = EventKind::kWorkerLost,
                      .text = fmt::format("{} is lost: it has said nothing for {:.0f} s",
                                          WorkerSubject(worker.report),
                                          ToSeconds(transition_.now() - worker.heard)),
                      .peer = worker.report.name()});
  }
}

void Fleet::Heartbeat(const Worker& worker) {
  v1::WorkResponse response = ResponseTo(worker);
  if (SaysNothingNew(worker, response)) {
    response.Clear();
    response.set_term(facts_.term());
  }
  transition_.Do(SendWork{worker.stream, std::move(response)});
}

}  // namespace millrace
