// What a session tells: its report to the dispatcher, and what its user sees.

#include <algorithm>

#include "client/session/machine/session_machine.h"
#include "common/base/mutant.h"
#include "common/transport/convert/drop_reasons.h"
#include "common/transport/convert/wait_causes.h"

namespace millrace::client {

void SessionMachine::SendReportWhereDue(Time now) {
  if (attach_.stream == 0 || attach_.writing || attach_.bye_sent) return;
  v1::AttachRequest message;
  if (leaving_ || !status_.ok()) {
    message.set_bye(true);
    if (admission_) *message.mutable_report() = MakeReport(now);
    attach_.bye_sent = true;
  } else {
    if (!ReportDue(now)) return;
    taken_between_reports_ = next_ - reported_next_;
    reported_next_ = next_;
    // A session that waits has nothing to report, but has to be heard.
    *message.mutable_report() = admission_ ? MakeReport(now) : v1::Report();
    if (admission_) asked_until_ = next_ + lease_window();
  }
  reported_ = now;
  report_stale_ = false;
  attach_.writing = true;
  actions_.push_back(SendAttach{attach_.stream, std::move(message)});
}

bool SessionMachine::ReportDue(Time now) const {
  if (!attach_.heard_any) return false;
  const Duration apart = report_stale_ ? kReportApart : kReportEvery;
  return now >= reported_ + apart || LeasesRunShort();
}

bool SessionMachine::LeasesRunShort() const {
  // Each time the loop has taken half of a window, or the window has doubled: so a session that
  // begins, or a loop that takes faster than before, sends a few reports more, and no flood.
  if (!admission_ || IsMutant(Mutant::kLeasesAskedLate)) return false;
  const std::uint64_t asked = asked_until_ - std::min(asked_until_, next_);
  return 2 * asked < lease_window();
}

v1::Report SessionMachine::MakeReport(Time now) const {
  v1::Report report;
  ToProto(steps_->At(next_), report.mutable_next());
  report.set_window(status_.ok() ? static_cast<std::uint32_t>(lease_window()) : 0);
  for (const auto& [id, held] : leases_.all()) {
    const std::uint64_t from = std::max(held.shard_first, next_);
    if (from >= held.end) continue;
    // A worker's number is all that the dispatcher needs of it.
    v1::Lease& lease = *report.add_held();
    ToProto(held.lease.id, lease.mutable_id());
    ToProto(steps_->CutTo(held.lease.shard, from, held.end), lease.mutable_shard());
    ToProto(held.lease.worker.id, lease.mutable_worker()->mutable_id());
    lease.set_copy(held.lease.copy);
  }
  if (last_lease_.is_set()) ToProto(last_lease_, report.mutable_last_lease());
  for (const auto& [id, link] : workers_.all()) {
    if (link.failing_until <= now && !link.refusal) continue;
    v1::Failing* failing = report.add_failing();
    ToProto(id, failing->mutable_worker());
    failing->set_remaining_seconds(std::max(0.0, ToSeconds(link.failing_until - now)));
    failing->set_reason(link.refusal ? link.refusal->reason : link.reason);
    if (link.refusal) failing->set_code(static_cast<std::uint32_t>(link.refusal->code));
  }
  if (waiting_ && !holds(next_) && now - waiting_since_ >= kLate) {
    const HeldLease* late = leases_.Covering(next_);
    const WorkerLink* worker = NextWorker();
    if (late != nullptr && worker != nullptr && worker->stream.heard_any) {
      ToProto(late->lease.id, report.mutable_late());
    }
  }
  report.set_buffered_batches(static_cast<std::uint32_t>(held_.size()));
  report.set_buffered_bytes(held_bytes_);

  v1::Counters* counters = report.mutable_counters();
  counters->set_batches(stats_.batches);
  counters->set_examples(stats_.examples);
  counters->set_bytes(stats_.bytes);
  counters->set_duplicates(stats_.duplicates);
  counters->set_duplicate_mismatches(stats_.duplicate_mismatches);
  counters->set_self_leases(stats_.self_leases);
  for (std::size_t i = 1; i < kDropReasons; ++i) {
    if (stats_.dropped[i] == 0) continue;
    v1::DroppedCount* dropped = counters->add_dropped();
    dropped->set_reason(ToProto(static_cast<DropReason>(i)));
    dropped->set_examples(stats_.dropped[i]);
  }
  for (std::size_t i = 1; i < kWaitCauses; ++i) {
    if (stats_.waited_seconds[i] == 0) continue;
    v1::WaitedSeconds* waited = counters->add_waited();
    waited->set_cause(ToProto(static_cast<WaitCause>(i)));
    waited->set_seconds(stats_.waited_seconds[i]);
  }
  const SessionStats said = stats(now);
  report.mutable_now()->set_cause(ToProto(said.now));
  report.mutable_now()->set_since_seconds(said.now_seconds);
  report.mutable_now()->set_worker_address(said.now_worker);
  report.mutable_now()->set_stage(said.now_stage);
  if (const WorkerLink* worker = NextWorker(); worker != nullptr && !said.now_worker.empty()) {
    ToProto(worker->where.id, report.mutable_now()->mutable_worker());
  }
  return report;
}

const WorkerLink* SessionMachine::NextWorker() const {
  const HeldLease* lease = leases_.Covering(next_);
  return lease == nullptr ? nullptr : workers_.Find(lease->lease.worker.id);
}

WaitCause SessionMachine::FindCause() const {
  if (!waiting_ || !status_.ok()) return WaitCause::kNone;
  if (!admission_) return WaitCause::kAttach;
  if (holds(next_)) return WaitCause::kExpand;
  if (loop_holds_ > 2 && window() == 1 && steps_->end() - next_ > 1) return WaitCause::kSlot;
  const WorkerLink* worker = NextWorker();
  if (worker == nullptr) return WaitCause::kLease;
  const WorkerLink::StreamFacts& stream = worker->stream;
  if (!stream.heard_any) return WaitCause::kConnect;
  const Position at = steps_->At(next_);
  if (stream.receiving == at) return WaitCause::kTransfer;
  if (stream.building == at) return WaitCause::kBuild;
  return stream.building || stream.batches_before > 0 ? WaitCause::kQueue : WaitCause::kBuild;
}

SessionStats SessionMachine::stats(Time now) const {
  SessionStats said = stats_;
  const Duration unsaid = now > now_ ? now - now_ : Duration{0};
  if (cause_ != WaitCause::kNone) {
    said.waited_seconds[static_cast<std::size_t>(cause_)] += ToSeconds(unsaid);
  }
  said.buffered_batches = held_.size();
  said.buffered_bytes = held_bytes_;
  said.now = cause_;
  if (cause_ == WaitCause::kNone) return said;
  said.now_seconds = ToSeconds(now - cause_since_);
  if (cause_ >= WaitCause::kConnect && cause_ <= WaitCause::kTransfer) {
    if (const WorkerLink* worker = NextWorker()) {
      said.now_worker = worker->where.address;
      if (cause_ == WaitCause::kBuild) said.now_stage = worker->stream.stage;
    }
  }
  return said;
}

}  // namespace millrace::client
