#include "client/session/machine/session_report.h"

#include <algorithm>

#include "common/base/refusal.h"
#include "common/transport/convert/drop_reasons.h"
#include "common/transport/convert/wait_causes.h"

namespace millrace::client {
namespace {

/// Failing workers that one report may name.
constexpr int kMaxFailing = 1024;

}  // namespace

v1::Report SessionReport::Make(bool ended, Time now) const {
  const auto& [attach, list, stock, asks, workers, supply, dealing, streams, pace, waits] =
      components_;
  v1::Report report;
  ToProto(attach.steps().At(stock.next()), report.mutable_next());
  report.set_asks(!ended && dealing.asks(now));
  report.set_step_ms(1e3 * pace.step_seconds());
  report.set_used(static_cast<std::uint32_t>(streams.MembersUsed()));
  report.set_list(list.NumberOf(attach.highest_term()));
  AddAsks(now, report);
  for (const auto& [id, link] : workers.all()) {
    if (link.failing_until <= now && !link.refusal && link.tried.empty()) continue;
    if (report.failing_size() == kMaxFailing) break;
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
  v1::Grants* grants = report.mutable_grants();
  grants->set_window(static_cast<std::uint32_t>(stock.window()));
  for (const WorkerLink* const link : workers.open()) {
    grants->set_credit_bytes(grants->credit_bytes() + link->credit_left());
  }
  report.set_buffered_batches(static_cast<std::uint32_t>(stock.held_batches()));
  report.set_buffered_bytes(stock.held_bytes());

  const SessionStats counted = Counted();
  v1::Counters* counters = report.mutable_counters();
  counters->set_batches(counted.batches);
  counters->set_examples(counted.examples);
  counters->set_tokens(counted.tokens);
  counters->set_bytes(counted.bytes);
  counters->set_duplicates(counted.duplicates);
  counters->set_duplicate_mismatches(counted.duplicate_mismatches);
  counters->set_asks_first(counted.asks_first);
  counters->set_asks_copy(counted.asks_copy);
  counters->set_asks_moved(counted.asks_moved);
  counters->set_moved_failed(counted.moved_failed);
  counters->set_moved_drained(counted.moved_drained);
  counters->set_moved_refused(counted.moved_refused);
  counters->set_wire_bytes(counted.wire_bytes);
  for (std::size_t i = 1; i < kDropReasons; ++i) {
    if (counted.dropped[i] == 0) continue;
    v1::DroppedCount* dropped = counters->add_dropped();
    dropped->set_reason(ToProto(static_cast<DropReason>(i)));
    dropped->set_examples(counted.dropped[i]);
  }
  for (std::size_t i = 1; i < kDropReasons; ++i) {
    if (counted.pieces_lost[i] == 0) continue;
    v1::LostPieces* lost = counters->add_pieces_lost();
    lost->set_reason(ToProto(static_cast<DropReason>(i)));
    lost->set_pieces(counted.pieces_lost[i]);
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

void SessionReport::AddAsks(Time now, v1::Report& report) const {
  std::uint32_t built = 0;
  double due = 0;
  for (const auto& [step, asks] : components_.asks.steps()) {
    if (asks.is_built()) {
      ++built;
    } else {
      due = std::max(due, ToSeconds(now - asks.all().front().due));
    }
  }
  report.set_asked(static_cast<std::uint32_t>(components_.asks.steps().size()));
  report.set_built(built);
  report.set_due_seconds(due);
}

SessionStats SessionReport::Counted() const {
  SessionStats counted;
  components_.stock.AddTo(counted);
  components_.supply.AddTo(counted);
  components_.waits.AddTo(counted);
  return counted;
}

SessionStats SessionReport::Stats(Time now) const {
  SessionStats said = Counted();
  components_.waits.AddNow(said, now);
  return said;
}

}  // namespace millrace::client
