#include "server/dispatcher/machine/usable_workers.h"

#include <algorithm>

#include "common/base/mutant.h"
#include "common/base/refusal.h"
#include "server/dispatcher/machine/hello_check.h"

namespace millrace {

bool IsHeard(const Worker& worker, Time now, const DispatcherOptions& options) {
  return worker.stream != 0 && now - worker.heard < options.worker_silence;
}

void ToProto(const Worker& worker, v1::WorkerRef* out) {
  *out = worker.report.self();
  ToProto(worker.id, out->mutable_id());
}

BuildTotals BuildTotalsOf(const v1::WorkRequest& report) {
  BuildTotals totals;
  for (const v1::StageSeconds& stage : report.build()) {
    totals.seconds += stage.seconds();
    // Every batch has some stage, and a stage once.
    totals.batches = std::max<std::uint64_t>(totals.batches, stage.count());
  }
  return totals;
}

bool IsUsable(const Worker& worker, const SessionFacts& session, Time now,
              const DispatcherOptions& options) {
  return session.plan && IsHeard(worker, now, options) && !worker.draining() &&
         (worker.ready.contains(session.plan->fingerprint) ||
          IsMutant(Mutant::kUnreadyWorkerListed)) &&
         (!worker.loopback || SameHost(worker.report.self().host_id(), session.hello.host_id()));
}

bool FailsForGood(const FailingWorker& failing) {
  return IsRefusedForGood(failing.code) && failing.refused.empty();
}

bool FailsForGood(const SessionFacts& session, WorkerId worker) {
  const auto failing = session.failing.find(worker);
  return failing != session.failing.end() && FailsForGood(failing->second);
}

}  // namespace millrace
