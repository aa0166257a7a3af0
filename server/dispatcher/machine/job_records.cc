// What is on disk of a job: its record, written before the Welcome that begins it and at its end.
#include <algorithm>

#include <fmt/core.h>

#include "server/dispatcher/machine/dispatcher_machine.h"

namespace millrace {

bool DispatcherMachine::RecordOnDisk(const SessionFacts& session) const {
  const std::string& job = session.hello.job();
  // What a write that failed has left there is not known: a network may have lost the answer alone.
  if (facts_.writes().contains(job)) return false;
  const v1::JobRecord* record = facts_.FindRecord(job);
  return record != nullptr && !record->ended() && session.plan &&
         record->fingerprint() == session.plan->fingerprint &&
         record->world_size() == session.hello.world_size();
}

bool DispatcherMachine::MayComeBack(const std::string& job) const {
  return facts_.IsInherited(job) && now_.time - facts_.booted() < options_.session_timeout;
}

bool DispatcherMachine::MayWrite(const std::string& job) const {
  const auto write = facts_.writes().find(job);
  if (write == facts_.writes().end()) return true;
  return !write->second.outstanding && now_.time >= write->second.retry_at;
}

std::string DispatcherMachine::WriteRecord(const SessionFacts& session) {
  const std::string& job = session.hello.job();
  const v1::JobRecord* kept = facts_.FindRecord(job);
  if (MayComeBack(job) && !session.live) {
    return fmt::format(
        "job {} ran with world size {} and plan {} when the dispatcher restarted: its sessions "
        "have "
        "{:.0f} s to come back",
        job, kept->world_size(), kept->fingerprint(), ToSeconds(options_.session_timeout));
  }
  if (MayWrite(job)) {
    v1::JobRecord record;
    record.set_name(job);
    record.set_fingerprint(session.plan->fingerprint);
    record.set_world_size(session.hello.world_size());
    *record.mutable_pipeline() = session.hello.pipeline();
    record.set_started_unix_seconds(now_.unix_seconds);
    record.set_canonical_pipeline(session.plan->facts->canonical_text());
    Apply(RecordSent{job});
    actions_.push_back(CommitRecord{std::move(record)});
  }
  const Status& error = facts_.writes().at(job).error;
  if (error.ok()) return "the job's record is being written";
  return fmt::format("the job's record cannot be written, which is tried every {:.0f} s: {}",
                     ToSeconds(options_.retry), error.message());
}

void DispatcherMachine::WriteEnd(const std::string& job) {
  const v1::JobRecord* last = facts_.FindRecord(job);
  if (last == nullptr || last->ended()) {
    const auto write = facts_.writes().find(job);
    if (write == facts_.writes().end() || write->second.outstanding) return;
    // What a store did whose answer was lost is ended as well; for so many jobs, and no more.
    if (!write->second.unknown || facts_.writes().size() > options_.max_jobs) {
      Apply(WriteForgotten{job});
      return;
    }
    last = &write->second.record;
  }
  if (!MayWrite(job) || MayComeBack(job)) return;
  v1::JobRecord record = *last;
  record.set_ended(true);
  record.set_ended_unix_seconds(now_.unix_seconds);
  Apply(RecordSent{job});
  actions_.push_back(CommitRecord{std::move(record)});
}

Actions DispatcherMachine::OnRecordCommitted(const v1::JobRecord& record, const Status& status,
                                             Moment now) {
  Begin(now);
  if (status.ok()) {
    Apply(RecordKept{record, options_.max_records});
  } else if (status.code() == StatusCode::kFailedPrecondition) {
    StepDown("its store refused a record: " + status.message());
  } else {
    Log(LogLevel::kError, "store failed", {{"job", record.name()}, {"why", status.message()}});
    Apply(RecordFailed{record, status, now_.time + options_.retry});
  }
  unsettled_.insert(record.name());
  return End();
}

}  // namespace millrace
