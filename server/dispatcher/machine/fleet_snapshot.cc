#include "server/dispatcher/machine/fleet_snapshot.h"

#include "common/base/wait_cause.h"
#include "common/transport/convert/wait_causes.h"
#include "server/dispatcher/machine/usable_workers.h"

namespace millrace {
namespace {

LoopTotals TotalsOf(const v1::Report& report, Time at) {
  LoopTotals totals{.at = at, .batches = report.counters().batches()};
  for (const v1::WaitedSeconds& waited : report.counters().waited()) {
    totals.waited_seconds += waited.seconds();
  }
  totals.waits = FromProto(report.now().cause()) != WaitCause::kNone;
  totals.step_seconds = report.step_ms() / 1000;
  return totals;
}

WorkerTotals TotalsOf(const Worker& worker) {
  const BuildTotals build = BuildTotalsOf(worker.report);
  return {worker.heard, build.batches, build.seconds, worker.report.threads()};
}

}  // namespace

FleetSnapshot SnapshotFleet(const DispatcherFacts& facts, Time now,
                            const DispatcherOptions& options) {
  FleetSnapshot look;
  look.loops.reserve(facts.sessions().size());
  for (const auto& [id, session] : facts.sessions()) {
    FleetSnapshot::Loop& loop = look.loops.emplace_back();
    loop.session = id;
    loop.job = session.hello.job();
    if (!session.live || session.hello.replica() != 0 || session.samples.empty()) continue;
    loop.totals = TotalsOf(*session.report, session.samples.back().at);
  }
  look.suppliers.reserve(facts.workers().size());
  for (const auto& [id, worker] : facts.workers()) {
    look.suppliers.push_back(
        {id, IsHeard(worker, now, options) && !worker.draining(), TotalsOf(worker)});
  }
  return look;
}

}  // namespace millrace
