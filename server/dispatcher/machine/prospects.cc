#include "server/dispatcher/machine/prospects.h"

#include <string>

#include <fmt/core.h>

#include "common/base/refusal.h"
#include "server/dispatcher/machine/plan_data.h"
#include "server/dispatcher/machine/worker_choice.h"

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
  const bool refuses = failing != session.failing.end() && IsRefusedForGood(failing->second.code);
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

}  // namespace

Status CheckProspects(const std::map<Number, Worker>& workers, const SessionFacts& session,
                      Time now, const DispatcherOptions& options) {
  int failing = 0;
  StatusCode code = StatusCode::kOk;
  std::string text;
  for (const auto& [id, worker] : workers) {
    const Prospect prospect = Of(worker, session, now, options);
    if (prospect.kind == Prospect::Kind::kServes || prospect.kind == Prospect::Kind::kMayServe) {
      return OkStatus();
    }
    if (prospect.kind != Prospect::Kind::kFailsForGood) continue;
    if (code != StatusCode::kDataLoss) code = prospect.why.code();
    if (++failing > kNamedWorkers) continue;
    text += fmt::format("{}worker {} at {}: {}", text.empty() ? "" : "; ", worker.report.name(),
                        worker.report.self().address(), prospect.why.message());
  }
  if (failing == 0) return OkStatus();
  if (failing > kNamedWorkers) text += fmt::format(" (and {} others)", failing - kNamedWorkers);
  return Status(code, "no worker is left that can serve the plan: " + text);
}

}  // namespace millrace
