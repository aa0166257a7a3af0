#include "client/session/machine/session_report.h"

#include <algorithm>

#include "common/base/refusal.h"
#include "common/transport/convert/drop_reasons.h"
#include "common/transport/convert/wait_causes.h"

namespace millrace::client {

v1::Report SessionReport::Make(bool ended, Time now) const {
  const auto& [attach, stock, leases, workers, supply, self_leases, waits] = parts_;
  v1::Report report;
  ToProto(attach.steps().At(stock.next()), report.mutable_next());
  report.set_window(ended ? 0 : static_cast<std::uint32_t>(stock.lease_window()));
  for (const auto& [id, held] : leases.all()) {
    const std::uint64_t from = std::max(held.shard_first, stock.next());
    if (from >= held.end) continue;
    // The dispatcher needs only the worker's number.
    v1::Lease& lease = *report.add_held();
    ToProto(held.lease.id, lease.mutable_id());
    ToProto(attach.steps().CutTo(held.lease.shard, from, held.end), lease.mutable_shard());
    ToProto(held.lease.worker.id, lease.mutable_worker()->mutable_id());
    lease.set_copy(held.lease.copy);
  }
  if (supply.last_lease().is_set()) ToProto(supply.last_lease(), report.mutable_last_lease());
  for (const auto& [id, link] : workers.all()) {
    if (link.failing_until <= now && !link.refusal && link.tried.empty()) continue;
    v1::Failing* failing = report.add_failing();
    ToProto(id, failing->mutable_worker());
    failing->set_remaining_seconds(std::max(0.0, ToSeconds(link.failing_until - now)));
    failing->set_reason(link.refusal ? link.refusal->reason : link.reason);
    if (link.refusal) {
      failing->set_code(static_cast<std::uint32_t>(link.refusal->code));
    } else if (!link.tried.empty()) {
      failing->set_code(static_cast<std::uint32_t>(StatusCode::kAborted));
    }
    for (const auto& [step, why] : link.tried) {
      if (failing->refused_size() == kMaxRefusedBatches) break;
      v1::RefusedBatch* batch = failing->add_refused();
      ToProto(attach.steps().At(step), batch->mutable_at());
      batch->set_reason(why);
    }
  }
  if (waits.waiting() && !stock.holds(stock.next()) && now - waits.waiting_since() >= kLate) {
    const HeldLease* late = leases.Covering(stock.next());
    const WorkerLink* worker = supply.NextWorker();
    if (late != nullptr && worker != nullptr && worker->stream.heard_any) {
      ToProto(late->lease.id, report.mutable_late());
    }
  }
  v1::Grants* grants = report.mutable_grants();
  grants->set_window(static_cast<std::uint32_t>(stock.window()));
  for (const auto& [id, link] : workers.all()) {
    grants->set_room(grants->room() + static_cast<std::uint32_t>(link.room));
    grants->set_credit_bytes(grants->credit_bytes() + link.credit_left());
  }
  report.set_buffered_batches(static_cast<std::uint32_t>(stock.held_batches()));
  report.set_buffered_bytes(stock.held_bytes());

  const SessionStats counted = Counted();
  v1::Counters* counters = report.mutable_counters();
  counters->set_batches(counted.batches);
  counters->set_examples(counted.examples);
  counters->set_bytes(counted.bytes);
  counters->set_duplicates(counted.duplicates);
  counters->set_duplicate_mismatches(counted.duplicate_mismatches);
  counters->set_self_leases(counted.self_leases);
  counters->set_wire_bytes(counted.wire_bytes);
  for (std::size_t i = 1; i < kDropReasons; ++i) {
    if (counted.dropped[i] == 0) continue;
    v1::DroppedCount* dropped = counters->add_dropped();
    dropped->set_reason(ToProto(static_cast<DropReason>(i)));
    dropped->set_examples(counted.dropped[i]);
  }
  for (std::size_t i = 1; i < kWaitCauses; ++i) {
    if (counted.waited_seconds[i] == 0) continue;
    v1::WaitedSeconds* waited = counters->add_waited();
    waited->set_cause(ToProto(static_cast<WaitCause>(i)));
    waited->set_seconds(counted.waited_seconds[i]);
  }
  const SessionStats said = Stats(now);
  report.mutable_now()->set_cause(ToProto(said.now));
  report.mutable_now()->set_since_seconds(said.now_seconds);
  report.mutable_now()->set_worker_address(said.now_worker);
  report.mutable_now()->set_stage(said.now_stage);
  if (const WorkerLink* worker = supply.NextWorker();
      worker != nullptr && !said.now_worker.empty()) {
    ToProto(worker->where.id, report.mutable_now()->mutable_worker());
  }
  return report;
}

SessionStats SessionReport::Counted() const {
  SessionStats counted;
  parts_.stock.AddTo(counted);
  parts_.supply.AddTo(counted);
  parts_.self_leases.AddTo(counted);
  parts_.waits.AddTo(counted);
  return counted;
}

SessionStats SessionReport::Stats(Time now) const {
  SessionStats said = Counted();
  parts_.waits.AddNow(said, now);
  return said;
}

}  // namespace millrace::client
