// Workers: who they are, which plans they shall keep, whose datasets differ.
#include <algorithm>

#include <fmt/format.h>

#include "common/batch/layout/semantics.h"
#include "server/dispatcher/machine/dispatcher_machine.h"
#include "server/dispatcher/machine/hello_check.h"
#include "server/dispatcher/machine/worker_choice.h"

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

bool SameDigests(const v1::WorkRequest& a, const v1::WorkRequest& b) {
  return a.datasets_size() == b.datasets_size() &&
         std::all_of(a.datasets().begin(), a.datasets().end(), [&b](const auto& entry) {
           const auto other = b.datasets().find(entry.first);
           return other != b.datasets().end() && other->second.digest() == entry.second.digest();
         });
}

}  // namespace

Actions DispatcherMachine::OnWork(StreamId stream, v1::WorkRequest request, Moment now) {
  Begin(now);
  const StreamFacts* facts = facts_.FindStream(stream);
  if (facts == nullptr || !facts->of_worker) return End();
  if (Status status = CheckWorkRequest(request); !status.ok()) {
    Close(stream, status);
    return End();
  }
  const std::uint64_t seen = std::max<std::uint64_t>(request.id().term(), request.highest_term());
  const std::string who = "worker " + request.name();
  if (Outranked(stream, who, seen) || ForeignNumber(who, FromProto(request.id()))) return End();
  Result<Number> recognised = RecogniseWorker(request);
  if (!recognised.ok()) {
    Close(stream, recognised.status());
    return End();
  }
  const Number id = *recognised;
  const Worker& worker = *facts_.FindWorker(id);
  if (worker.stream != stream)
    Close(worker.stream, Cancelled("the worker has opened a newer stream"));
  // What changes the answer; everything else can wait for the next pulse.
  const bool answer = worker.stream != stream || !SameDigests(worker.report, request);
  const bool was_heard = IsHeard(worker, now_.time, options_);
  const std::set<std::string> was_ready = worker.ready;
  Apply(WorkerReported{id, Trimmed(request), stream, now_.time});
  if (request.bye()) {
    DropWorker(id);
    return End();
  }
  CompareFiles(id, request);
  if (answer) Respond(worker);
  const bool more =
      !std::includes(was_ready.begin(), was_ready.end(), worker.ready.begin(), worker.ready.end());
  if (more || !was_heard) FillAll();
  return End();
}

Result<Number> DispatcherMachine::RecogniseWorker(const v1::WorkRequest& request) {
  const Number brought = FromProto(request.id());
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
  const Number id = keeps ? brought : NewNumber();
  Apply(WorkerJoined{id, request.nonce()});
  Log(LogLevel::kInfo, "worker joined",
      {{"worker", id.ToString()}, {"name", request.name()}, {"address", request.self().address()}});
  return id;
}

void DispatcherMachine::CompareFiles(Number id, const v1::WorkRequest& request) {
  const Worker& worker = *facts_.FindWorker(id);
  for (const auto& [dataset, there] : request.datasets()) {
    const auto here = facts_.datasets().find(dataset);
    if (here == facts_.datasets().end() || there.file_list_size() == 0) continue;
    if (there.digest().empty() || there.digest() == here->second.digest()) continue;
    std::string text = FirstDifference(here->second, there);
    if (text.empty()) text = "the files are the same, but not the version of the index";
    Log(LogLevel::kWarning, "dataset differs",
        {{"worker", worker.report.name()}, {"dataset", dataset}, {"difference", text}});
    Apply(WorkerDiffers{id, dataset, {there.digest(), text}});
  }
}

bool DispatcherMachine::SaysNothingNew(const Worker& worker, const v1::WorkResponse& response) {
  std::set<std::string> has;
  std::set<std::string> shall_have;
  for (const auto& plan : worker.report.plans()) has.insert(plan.fingerprint());
  for (const auto& plan : response.plans()) shall_have.insert(plan.fingerprint());
  return has == shall_have && response.list_files().empty() &&
         response.dataset_differences().empty() &&
         (!response.drain() || worker.report.draining()) &&
         FromProto(worker.report.id()) == worker.id;
}

void DispatcherMachine::Respond(const Worker& worker) {
  if (worker.stream != 0) actions_.push_back(SendWork{worker.stream, ResponseTo(worker)});
}

v1::WorkResponse DispatcherMachine::ResponseTo(const Worker& worker) const {
  v1::WorkResponse response;
  response.set_term(facts_.term());
  ToProto(worker.id, response.mutable_id());
  response.set_drain(worker.drained);

  std::set<std::string> told;  // several texts may give one plan
  for (const auto& [key, plan] : facts_.plans()) {
    if (plan.phase != RequestedPlan::Phase::kReady || !Builds(worker, kSemantics)) continue;
    const auto dataset = worker.report.datasets().find(plan.facts->dataset());
    if (dataset == worker.report.datasets().end() ||
        dataset->second.digest() != plan.facts->fingerprint().dataset.ToHex() ||
        !told.insert(plan.fingerprint).second) {
      continue;
    }
    v1::PlanSpec& spec = *response.add_plans();
    spec.set_fingerprint(plan.fingerprint);
    spec.set_dataset(plan.facts->dataset());
    *spec.mutable_pipeline() = plan.pipeline;
  }
  KeepUnknownPlans(worker, told, response);

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

void DispatcherMachine::KeepUnknownPlans(const Worker& worker, std::set<std::string>& told,
                                         v1::WorkResponse& response) const {
  if (now_.time - facts_.booted() >= options_.plan_linger) return;
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

void DispatcherMachine::RespondAll() {
  for (const auto& [id, worker] : facts_.workers()) Respond(worker);
}

void DispatcherMachine::DropWorker(Number id) {
  const Worker& worker = *facts_.FindWorker(id);
  Log(LogLevel::kInfo, "worker left", {{"worker", id.ToString()}, {"name", worker.report.name()}});
  Close(worker.stream, OkStatus());
  Apply(WorkerLeft{id});
}

// --- Operators

Result<v1::DrainWorkerResponse> DispatcherMachine::DrainWorker(
    const v1::DrainWorkerRequest& request, Moment now, Actions& actions) {
  MILLRACE_RETURN_IF_ERROR(stepped_down_);
  Begin(now);
  std::vector<const Worker*> meant;
  std::vector<std::string> all;
  for (const auto& [id, worker] : facts_.workers()) {
    all.push_back(Describe(worker));
    const std::string& name = request.worker();
    if (!name.empty() && (name == worker.report.name() || name == id.ToString() ||
                          name == worker.report.self().address())) {
      meant.push_back(&worker);
    }
  }
  // One that was killed is listed for a while beside the one that took its place.
  if (std::any_of(meant.begin(), meant.end(), [](const Worker* w) { return w->stream != 0; })) {
    std::erase_if(meant, [](const Worker* w) { return w->stream == 0; });
  }
  Result<v1::DrainWorkerResponse> result = v1::DrainWorkerResponse();
  if (meant.empty()) {
    result = NotFound(fmt::format("no worker '{}': there are {}", request.worker(),
                                  all.empty() ? "none" : fmt::format("{}", fmt::join(all, "; "))));
  } else if (meant.size() > 1) {
    result = FailedPrecondition(
        fmt::format("{} workers are called '{}': use the address or number, of {}", meant.size(),
                    request.worker(), fmt::join(all, "; ")));
  } else {
    ToProto(meant[0]->id, result->mutable_id());
    Log(LogLevel::kInfo, "worker drains", {{"worker", meant[0]->id.ToString()}});
    Apply(WorkerDrained{meant[0]->id});
    Respond(*meant[0]);
  }
  actions = End();
  return result;
}

Result<v1::EndJobResponse> DispatcherMachine::EndJob(const v1::EndJobRequest& request, Moment now,
                                                     Actions& actions) {
  MILLRACE_RETURN_IF_ERROR(stepped_down_);
  Begin(now);
  const std::set<Number> ids = facts_.SessionsOf(request.job());
  Result<v1::EndJobResponse> result = v1::EndJobResponse();
  if (ids.empty()) {
    std::set<std::string> jobs;
    for (const auto& [id, session] : facts_.sessions()) jobs.insert(session.hello.job());
    result =
        NotFound(fmt::format("no job '{}' has a session: jobs are {}", request.job(),
                             jobs.empty() ? "none" : fmt::format("{}", fmt::join(jobs, ", "))));
  } else {
    Apply(JobTurnedOut{request.job(), facts_.last_number()});
    for (const Number id : ids) {
      Fail(id, Aborted(fmt::format("job {} was ended by an operator", request.job())));
    }
    result->set_sessions(static_cast<std::uint32_t>(ids.size()));
  }
  actions = End();
  return result;
}

}  // namespace millrace
