#include "server/dispatcher/machine/fleet_look.h"

#include <algorithm>

#include "common/base/wait_cause.h"
#include "common/transport/convert/wait_causes.h"
#include "server/dispatcher/machine/worker_choice.h"

namespace millrace {
namespace {

/// Whether more workers could shorten this wait.
bool IsForWorkers(WaitCause cause) { return cause == WaitCause::kLease || IsForWorker(cause); }

LoopTotals TotalsOf(const v1::Counters& counters, Time at) {
  LoopTotals totals{at, counters.batches(), 0};
  for (const v1::WaitedSeconds& waited : counters.waited()) {
    if (IsForWorkers(FromProto(waited.cause()))) totals.waited_seconds += waited.seconds();
  }
  return totals;
}

WorkerTotals TotalsOf(const Worker& worker) {
  const v1::WorkRequest& report = worker.report;
  const BuildTotals build = BuildTotalsOf(report);
  const std::uint64_t shared = std::min(report.shared_batches(), report.sent_batches());
  return {worker.heard, build.batches, build.seconds, report.sent_batches() - shared,
          report.threads()};
}

}  // namespace

FleetLook LookAtFleet(const DispatcherFacts& facts, Time now, const DispatcherOptions& options) {
  FleetLook look;
  look.loops.reserve(facts.sessions().size());
  for (const auto& [id, session] : facts.sessions()) {
    FleetLook::Loop& loop = look.loops.emplace_back();
    loop.session = id;
    loop.job = session.hello.job();
    if (!session.live || session.hello.replica() != 0 || session.samples.empty()) continue;
    loop.totals = TotalsOf(session.report->counters(), session.samples.back().at);
  }
  look.suppliers.reserve(facts.workers().size());
  for (const auto& [id, worker] : facts.workers()) {
    look.suppliers.push_back(
        {id, IsHeard(worker, now, options) && !worker.draining(), TotalsOf(worker)});
  }
  return look;
}

}  // namespace millrace
