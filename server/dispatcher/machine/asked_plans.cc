#include "server/dispatcher/machine/asked_plans.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace millrace {
namespace {

bool Lists(const Worker& worker, const RequestedPlan& plan) {
  return std::all_of(plan.plugins.begin(), plan.plugins.end(), [&](const std::string& plugin) {
    return worker.report.datasets().contains(plugin);
  });
}

/// The worker's word on the question; null if it does not know it yet.
const v1::PlanState* StateOf(const Worker& worker, const RequestedPlan& plan) {
  for (const v1::PlanState& state : worker.report.plans()) {
    if (state.fingerprint() == plan.question) return &state;
  }
  return nullptr;
}

bool HasFailedForGood(const Worker& worker, const RequestedPlan& plan) {
  const v1::PlanState* state = StateOf(worker, plan);
  return state != nullptr && state->phase() == v1::FAILED &&
         static_cast<StatusCode>(state->error_code()) != StatusCode::kUnavailable;
}

/// "plugin:asr and plugin:text".
std::string NamePlugins(const RequestedPlan& plan) {
  return fmt::format("{}", fmt::join(plan.plugins, " and "));
}

std::string WhyHere(const RequestedPlan& plan) {
  if (plan.damage.ok()) return fmt::format("the dispatcher has no {}", NamePlugins(plan));
  return fmt::format("the dispatcher's data are damaged ({})", plan.damage.message());
}

/// Why a worker's data are of no use: they are damaged too. Empty if they are not.
std::string DamageOf(const Worker& worker, const RequestedPlan& plan) {
  for (const std::string& id : plan.plugins) {
    const v1::DatasetState& dataset = worker.report.datasets().at(id);
    if (dataset.digest().empty() && !dataset.error().empty()) {
      return fmt::format("dataset {}: {}", id, dataset.error());
    }
  }
  const v1::PlanState* state = StateOf(worker, plan);
  const bool failed = state != nullptr && state->phase() == v1::FAILED &&
                      static_cast<StatusCode>(state->error_code()) == StatusCode::kDataLoss;
  return failed ? state->error() : std::string();
}

bool ServesOneOf(const Worker& worker, const std::set<std::string>& fingerprints) {
  const auto& plans = worker.report.plans();
  return std::any_of(plans.begin(), plans.end(), [&](const v1::PlanState& plan) {
    return plan.phase() == v1::READY && fingerprints.contains(plan.fingerprint());
  });
}

/// CheckAsked if the dispatcher's data are damaged.
Status CheckDamaged(const RequestedPlan& plan, const std::map<WorkerId, Worker>& workers,
                    const std::set<std::string>& of_jobs) {
  constexpr std::size_t kNamed = 4;
  std::size_t damaged = 0;
  std::string text;
  for (const auto& [id, worker] : workers) {
    if (worker.draining()) continue;
    if (ServesOneOf(worker, of_jobs)) return OkStatus();
    if (!Lists(worker, plan)) continue;
    const std::string damage = DamageOf(worker, plan);
    if (damage.empty() && !HasFailedForGood(worker, plan)) return OkStatus();
    if (damage.empty() || ++damaged > kNamed) continue;
    text += fmt::format("{}worker {} at {}: {}", text.empty() ? "" : "; ", worker.report.name(),
                        worker.report.self().address(), damage);
  }
  if (damaged == 0) return OkStatus();
  if (damaged > kNamed) text += fmt::format(" (and {} others)", damaged - kNamed);
  return DataLoss(fmt::format("no worker is left that can serve the plan: {}; the dispatcher: {}",
                              text, plan.damage.message()));
}

/// Why a worker that lists the plugins has not answered yet.
std::string WhyNoAnswer(const Worker& worker, const RequestedPlan& plan) {
  for (const std::string& plugin : plan.plugins) {
    const v1::DatasetState& dataset = worker.report.datasets().at(plugin);
    if (!dataset.error().empty()) return fmt::format("dataset {}: {}", plugin, dataset.error());
  }
  const v1::PlanState* state = StateOf(worker, plan);
  if (state != nullptr && state->phase() == v1::FAILED) return state->error();
  return "it compiles the plan";
}

}  // namespace

bool CanBeAsked(const Worker& worker, const RequestedPlan& plan) {
  return Lists(worker, plan) &&
         std::all_of(plan.plugins.begin(), plan.plugins.end(), [&](const std::string& plugin) {
           return !worker.report.datasets().at(plugin).digest().empty();
         });
}

std::string WhyAsked(const RequestedPlan& plan, const std::map<WorkerId, Worker>& workers) {
  const Worker* named = nullptr;
  for (const auto& [id, worker] : workers) {
    if (!Lists(worker, plan)) continue;
    if (named == nullptr || (!CanBeAsked(*named, plan) && CanBeAsked(worker, plan)) ||
        (HasFailedForGood(*named, plan) && !HasFailedForGood(worker, plan))) {
      named = &worker;
    }
  }
  const std::string lacks = WhyHere(plan);
  if (named != nullptr) {
    return fmt::format("{}, and asks worker {}: {}", lacks, named->report.name(),
                       WhyNoAnswer(*named, plan));
  }
  return workers.empty() ? lacks + ", and no worker is connected that could have it"
                         : fmt::format("{}, and none of {} workers has it", lacks, workers.size());
}

Status CheckAsked(const RequestedPlan& plan, const std::map<WorkerId, Worker>& workers,
                  bool all_are_back, const std::set<std::string>& of_jobs) {
  if (!plan.damage.ok()) return all_are_back ? CheckDamaged(plan, workers, of_jobs) : OkStatus();
  const Worker* failed = nullptr;
  std::size_t failing = 0;
  for (const auto& [id, worker] : workers) {
    if (!Lists(worker, plan)) continue;
    if (!HasFailedForGood(worker, plan)) return OkStatus();
    if (failed == nullptr) failed = &worker;
    ++failing;
  }
  if (failed != nullptr) {
    // Another worker may have the dataset that this one lacks.
    const auto code = static_cast<StatusCode>(StateOf(*failed, plan)->error_code());
    if (code == StatusCode::kNotFound && !all_are_back) return OkStatus();
    const v1::PlanState& state = *StateOf(*failed, plan);
    return Status(static_cast<StatusCode>(state.error_code()), state.error())
        .WithContext(fmt::format("worker {}{}", failed->report.name(),
                                 failing > 1 ? fmt::format(" and {} others", failing - 1) : ""));
  }
  if (workers.empty() || !all_are_back) return OkStatus();
  const std::string plugin = plan.plugins.front().substr(plan.plugins.front().find(':') + 1);
  return NotFound(fmt::format(
      "neither the dispatcher nor one of its {} workers has {}: list it in the configuration of "
      "the workers (plugins: {{{}: {{path: FOLDER}}}}), or start them with --plugin {}=FOLDER",
      workers.size(), NamePlugins(plan), plugin, plugin));
}

}  // namespace millrace
