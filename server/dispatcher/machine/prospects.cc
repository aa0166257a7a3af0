#include "server/dispatcher/machine/prospects.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "common/base/mutant.h"
#include "common/base/refusal.h"
#include "server/dispatcher/machine/plan_data.h"
#include "server/dispatcher/machine/usable_workers.h"

namespace millrace {
namespace {

constexpr int kNamedWorkers = 4;

struct Prospect {
  enum class Kind { kServes, kMayServe, kOutside, kFailsForGood };
  Kind kind = Kind::kOutside;
  Status why = OkStatus();  // if it fails for good
};

Prospect Of(const Worker& worker, const SessionFacts& session, Time now,
            const DispatcherOptions& options) {
  using Kind = Prospect::Kind;
  if (worker.draining()) return {Kind::kOutside};
  const auto failing = session.failing.find(worker.id);
  // A worker that has refused single batches may build the others.
  const bool refuses = failing != session.failing.end() && IsRefusedForGood(failing->second.code) &&
                       failing->second.refused.empty();
  for (const auto& plan : worker.report.plans()) {
    if (plan.fingerprint() != session.plan->fingerprint) continue;
    if (plan.phase() == v1::FAILED) {
      const auto code = static_cast<StatusCode>(plan.error_code());
      if (code != StatusCode::kDataLoss) return {Kind::kOutside};
      return {Kind::kFailsForGood, Status(code, plan.error())};
    }
    if (!IsHeard(worker, now, options) || plan.phase() != v1::READY) return {Kind::kMayServe};
    if (!IsUsable(worker, session, now, options))
      return {Kind::kOutside};  // the consumer cannot reach it
    if (!refuses) return {Kind::kServes};
    return {Kind::kFailsForGood, Status(failing->second.code, failing->second.reason)};
  }
  // The worker has not been told of the plan, or has not said so yet. Its datasets decide.
  const DataState worst = WorstDataState(worker.report, *session.plan->facts);
  const bool may = worst == DataState::kSame || worst == DataState::kIndexing;
  return {may ? Kind::kMayServe : Kind::kOutside};
}

/// The workers that have tried to build a batch with the code of a user, each with the reason why
/// it could not.
using Tries = std::map<WorkerId, std::string>;

std::map<Position, Tries> TriesOf(const SessionFacts& session) {
  std::map<Position, Tries> tries;
  for (const auto& [worker, failing] : session.failing) {
    for (const auto& [at, why] : failing.refused) {
      const bool together = IsMutant(Mutant::kTriesCountedTogether);
      tries[together ? Position{} : at].emplace(worker, why);
    }
  }
  return tries;
}

std::string NameOf(const std::map<WorkerId, Worker>& workers, WorkerId id) {
  const auto found = workers.find(id);
  if (found == workers.end()) return "worker " + id.ToString();
  const v1::WorkRequest& report = found->second.report;
  return fmt::format("worker {} at {}", report.name(), report.self().address());
}

/// Reasons, each once, after the names of the workers that have it. The first worker's comes first.
class Reasons {
 public:
  void Add(const std::string& worker, const std::string& why) {
    const auto known = std::find_if(reasons_.begin(), reasons_.end(),
                                    [&](const auto& reason) { return reason.second == why; });
    if (known == reasons_.end()) {
      reasons_.emplace_back(worker, why);
    } else {
      known->first += ", " + worker;
    }
  }
  std::string Text() const {
    std::string text;
    for (const auto& [names, why] : reasons_) {
      text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", names, why);
    }
    return text;
  }

 private:
  std::vector<std::pair<std::string, std::string>> reasons_;  // names and reason
};

std::string Describe(const std::map<WorkerId, Worker>& workers, const Tries& tries) {
  Reasons reasons;
  for (const auto& [id, why] : tries) reasons.Add(NameOf(workers, id), why);
  return reasons.Text();
}

}  // namespace

Status CheckTries(const std::map<WorkerId, Worker>& workers, const SessionFacts& session) {
  if (IsMutant(Mutant::kTriesNotCounted)) return OkStatus();
  for (const auto& [at, tries] : TriesOf(session)) {
    if (tries.size() < kWorkersTryCode) continue;
    return DataLoss("three tries failed: " + Describe(workers, tries));
  }
  return OkStatus();
}

Status CheckProspects(const std::map<WorkerId, Worker>& workers, const SessionFacts& session,
                      Time now, const DispatcherOptions& options) {
  int failing = 0;
  std::set<WorkerId> viable;
  StatusCode code = StatusCode::kOk;
  Reasons reasons;
  for (const auto& [id, worker] : workers) {
    const Prospect prospect = Of(worker, session, now, options);
    if (prospect.kind == Prospect::Kind::kServes || prospect.kind == Prospect::Kind::kMayServe) {
      viable.insert(id);
      continue;
    }
    if (prospect.kind != Prospect::Kind::kFailsForGood) continue;
    if (code != StatusCode::kDataLoss) code = prospect.why.code();
    if (++failing > kNamedWorkers) continue;
    reasons.Add(NameOf(workers, id), prospect.why.message());
  }
  constexpr auto kNoneLeft = "no worker is left that can serve the plan: ";
  for (const auto& [at, tries] : TriesOf(session)) {
    const bool all = !viable.empty() &&
                     std::all_of(viable.begin(), viable.end(),
                                 [&tries = tries](WorkerId id) { return tries.contains(id); });
    if (all) return DataLoss(kNoneLeft + Describe(workers, tries));
  }
  if (failing == 0 || !viable.empty()) return OkStatus();
  if (code == StatusCode::kAborted) code = StatusCode::kDataLoss;
  std::string text = reasons.Text();
  if (failing > kNamedWorkers) text += fmt::format(" (and {} others)", failing - kNamedWorkers);
  return Status(code, kNoneLeft + text);
}

}  // namespace millrace
