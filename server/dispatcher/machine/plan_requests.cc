#include "server/dispatcher/machine/plan_requests.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "server/dispatcher/machine/asked_plans.h"
#include "server/dispatcher/machine/plan_data.h"

namespace millrace {

bool PlanRequests::Request(const std::string& key, const v1::PipelineText& pipeline) {
  ForgetIfStale(key);
  if (facts_.FindPlan(key) != nullptr) return true;
  if (facts_.plans().size() >= options_.max_plans) {
    const std::set<std::string> used = Used();
    const RequestedPlan* oldest = nullptr;
    for (const auto& [k, plan] : facts_.plans()) {
      if (used.contains(k) || plan.phase == RequestedPlan::Phase::kCompiling) continue;
      if (oldest == nullptr || plan.used < oldest->used) oldest = &plan;
    }
    if (oldest == nullptr) return false;
    transition_.Apply(PlanForgotten{std::string(oldest->key)});
    transition_.TellWorkers();
  }
  transition_.Apply(PlanRequested{key, pipeline, transition_.now()});
  transition_.Do(CompilePlan{key, pipeline});
  return true;
}

void PlanRequests::OnCompiled(const std::string& key,
                              const Result<std::shared_ptr<const PlanFacts>>& plan) {
  if (facts_.FindPlan(key) == nullptr) return;
  if (plan.ok()) {
    MarkAsking(key);
    transition_.Apply(PlanReady{key, *plan, transition_.now()});
    transition_.TellWorkers();
    transition_.Log(LogLevel::kInfo, "plan ready",
                    {{"fingerprint", (*plan)->fingerprint().ToString()}});
  } else if (plan.status().code() == StatusCode::kUnavailable ||
             plan.status().code() == StatusCode::kResourceExhausted) {
    MarkAsking(key);
    transition_.Apply(PlanPutOff{key, plan.status(), transition_.now() + options_.retry});
  } else {
    Refuse(key, plan.status());
  }
}

std::vector<SessionId> PlanRequests::MarkAsking(const std::string& key) {
  std::vector<SessionId> asking;
  for (const auto& [id, session] : facts_.sessions()) {
    if (session.plan_key != key) continue;
    asking.push_back(id);
    transition_.Mark(session.hello.job());
  }
  return asking;
}

void PlanRequests::Refuse(const std::string& key, const Status& why) {
  const std::vector<SessionId> asking = MarkAsking(key);
  transition_.Log(LogLevel::kWarning, "plan refused", {{"why", why.message()}});
  transition_.Apply(PlanForgotten{key});
  for (const SessionId id : asking) sessions_.Fail(id, why, EventKind::kPipelineRefused);
}

void PlanRequests::OnColumnsMissing(const std::string& key, const ColumnWant& want) {
  const RequestedPlan* plan = facts_.FindPlan(key);
  if (plan == nullptr) return;
  MarkAsking(key);
  transition_.Apply(PlanLacks{key, columns_.Want(plan->pipeline, want)});
}

void PlanRequests::OnPluginsMissing(const std::string& key,
                                    const std::vector<std::string>& plugins) {
  if (facts_.FindPlan(key) != nullptr) Ask(key, plugins, OkStatus());
}

void PlanRequests::OnDataDamaged(const std::string& key, const Status& why,
                                 const std::vector<std::string>& named) {
  if (facts_.FindPlan(key) == nullptr) return;
  if (named.empty() || !BeganBefore(key)) return Refuse(key, why);
  transition_.Log(LogLevel::kWarning,
                  "the dispatcher's data are damaged; workers are asked for the plan of a job",
                  {{"datasets", fmt::format("{}", fmt::join(named, ","))}, {"why", why.message()}});
  Ask(key, named, why);
}

void PlanRequests::Ask(const std::string& key, const std::vector<std::string>& named,
                       const Status& damage) {
  MarkAsking(key);
  // A name of its own, so that no answer to an earlier question is taken for one to this.
  const std::string question = "question " + transition_.NewNumber().ToString();
  transition_.Apply(PlanAsked{key, question, named, damage, transition_.now()});
  transition_.TellWorkers();
}

std::set<std::string> PlanRequests::FingerprintsOf(const std::string& key) const {
  std::set<std::string> fingerprints;
  for (const auto& [name, record] : facts_.records()) {
    if (record.ended() || PlanKey(record.pipeline()) != key) continue;
    fingerprints.insert(record.fingerprint());
  }
  return fingerprints;
}

bool PlanRequests::BeganBefore(const std::string& key) const {
  const auto& sessions = facts_.sessions();
  return !FingerprintsOf(key).empty() ||
         std::any_of(sessions.begin(), sessions.end(), [&](const auto& session) {
           return session.second.plan_key == key && session.second.live_before;
         });
}

bool PlanRequests::IsOfItsJobs(const RequestedPlan& plan, const v1::PlanAnswer& answer) const {
  // A job's data are those of the host that compiled its plan, and may differ from the worker's.
  if (plan.damage.ok() || !answer.has_outline()) return true;
  if (transition_.now() - plan.asked >= options_.session_timeout) return true;
  const std::set<std::string> fingerprints = FingerprintsOf(plan.key);
  if (fingerprints.contains(answer.outline().fingerprint())) return true;
  bool any = !fingerprints.empty();
  for (const auto& [id, session] : facts_.sessions()) {
    const std::string& cursor = session.hello.cursor_fingerprint();
    if (session.plan_key != plan.key || !session.live_before || cursor.empty()) continue;
    if (cursor == answer.outline().order_fingerprint()) return true;
    any = true;
  }
  return !any;
}

void PlanRequests::OnAnswers(const v1::WorkRequest& request) {
  for (const v1::PlanAnswer& answer : request.answers()) {
    for (const auto& [key, plan] : facts_.plans()) {
      if (plan.phase != RequestedPlan::Phase::kAsking || plan.question != answer.question() ||
          !IsOfItsJobs(plan, answer)) {
        continue;
      }
      const v1::PipelineText pipeline = plan.pipeline;
      transition_.Apply(PlanRequested{key, pipeline, transition_.now()});
      transition_.Do(CompilePlan{key, pipeline, answer});
      break;
    }
  }
}

void PlanRequests::ForgetIfStale(const std::string& key) {
  const RequestedPlan* plan = facts_.FindPlan(key);
  if (plan == nullptr || plan->plugins.empty() || plan->phase != RequestedPlan::Phase::kReady)
    return;
  const auto has_data = [plan](const auto& worker) {
    return WorstDataState(worker.second.report, *plan->facts) == DataState::kSame;
  };
  if (std::any_of(facts_.workers().begin(), facts_.workers().end(), has_data)) return;
  if (!Used().contains(key)) transition_.Apply(PlanForgotten{key});
}

void PlanRequests::OnColumnsKept(const std::string& columns) {
  std::vector<std::string> again;
  for (const auto& [key, plan] : facts_.plans()) {
    if (plan.phase == RequestedPlan::Phase::kLacksColumns && plan.lacks == columns) {
      again.push_back(key);
    }
  }
  for (const std::string& key : again) RequestAgain(key);
}

void PlanRequests::OnDataset(const std::string& dataset, const std::string& digest) {
  ForgetOlder(dataset, digest);
  // Plans that could not be compiled may have waited for this dataset.
  std::vector<std::string> again;
  for (const auto& [key, plan] : facts_.plans()) {
    if (plan.phase == RequestedPlan::Phase::kRetrying ||
        plan.phase == RequestedPlan::Phase::kLacksColumns ||
        plan.phase == RequestedPlan::Phase::kAsking) {
      again.push_back(key);
    }
  }
  for (const auto& key : again) RequestAgain(key);
}

void PlanRequests::ForgetOlder(const std::string& dataset, const std::string& digest) {
  const std::set<std::string> used = Used();
  std::vector<std::string> older;
  for (const auto& [key, plan] : facts_.plans()) {
    if (plan.phase != RequestedPlan::Phase::kReady || used.contains(key)) continue;
    const std::vector<PlanDataset>& datasets = plan.facts->datasets();
    if (std::any_of(datasets.begin(), datasets.end(), [&](const PlanDataset& of_plan) {
          return of_plan.id == dataset && of_plan.digest.ToHex() != digest;
        })) {
      older.push_back(key);
    }
  }
  for (const std::string& key : older) transition_.Apply(PlanForgotten{key});
}

void PlanRequests::Tend() {
  const std::set<std::string> used = Used();
  std::vector<std::string> over;
  std::vector<std::string> again;
  std::vector<std::pair<std::string, Status>> unviable;
  for (const auto& [key, plan] : facts_.plans()) {
    const bool kept = used.contains(key) || transition_.now() - plan.used < options_.plan_linger;
    if (plan.phase == RequestedPlan::Phase::kCompiling) continue;
    if (!kept) {
      over.push_back(key);
    } else if (plan.phase == RequestedPlan::Phase::kRetrying &&
               transition_.now() >= plan.retry_at) {
      again.push_back(key);
    } else if (plan.phase == RequestedPlan::Phase::kLacksColumns) {
      const Status viability = columns_.CheckViability(plan.lacks);
      if (!viability.ok()) unviable.emplace_back(key, viability);
    } else if (plan.phase == RequestedPlan::Phase::kAsking) {
      // Workers come back one by one after a restart.
      const bool all_are_back = transition_.now() - plan.asked >= options_.session_timeout;
      const Status viability =
          CheckAsked(plan, facts_.workers(), all_are_back, FingerprintsOf(key));
      if (!viability.ok()) unviable.emplace_back(key, viability);
    }
  }
  for (const auto& [key, why] : unviable) Refuse(key, why);
  for (const auto& key : over) transition_.Apply(PlanForgotten{key});
  if (!over.empty()) transition_.TellWorkers();
  for (const auto& key : again) RequestAgain(key);
}

void PlanRequests::RequestAgain(const std::string& key) {
  const v1::PipelineText pipeline = facts_.FindPlan(key)->pipeline;
  transition_.Apply(PlanRequested{key, pipeline, transition_.now()});
  transition_.Do(CompilePlan{key, pipeline});
}

std::set<std::string> PlanRequests::Used() const {
  std::set<std::string> used;
  for (const auto& [id, session] : facts_.sessions()) used.insert(session.plan_key);
  return used;
}

}  // namespace millrace
