#include "server/dispatcher/machine/job_records.h"

#include <utility>

#include <fmt/core.h>

#include "server/dispatcher/machine/job_end.h"

namespace millrace {

bool JobRecords::IsOnDisk(const SessionFacts& session) const {
  const std::string& job = session.hello.job();
  // A write that is under way or has failed may have changed the disk: the network may have lost
  // only the answer.
  if (facts_.writes().contains(job)) return false;
  const v1::JobRecord* record = facts_.FindRecord(job);
  return record != nullptr && !record->ended() && session.plan &&
         record->fingerprint() == session.plan->fingerprint &&
         record->world_size() == session.hello.world_size();
}

std::string JobRecords::Write(const SessionFacts& session) {
  const std::string& job = session.hello.job();
  const v1::JobRecord* kept = facts_.FindRecord(job);
  if (MayComeBack(job) && !session.live) {
    return fmt::format(
        "job {} ran with world size {} and plan {} when the dispatcher restarted: its sessions "
        "have {:.0f} s to come back",
        job, kept->world_size(), kept->fingerprint(), ToSeconds(options_.session_timeout));
  }
  if (MayWrite(job)) {
    v1::JobRecord record;
    record.set_name(job);
    record.set_fingerprint(session.plan->fingerprint);
    record.set_world_size(session.hello.world_size());
    *record.mutable_pipeline() = session.hello.pipeline();
    record.set_started_unix_seconds(transition_.unix_seconds());
    record.set_canonical_pipeline(session.plan->facts->canonical_text());
    record.set_owner(facts_.OwnerOf(job));
    transition_.Apply(RecordSent{job});
    transition_.Do(CommitRecord{std::move(record)});
  }
  const Status& error = facts_.writes().at(job).error;
  if (error.ok()) return "the job's record is being written";
  return fmt::format("the job's record cannot be written; it is tried again every {:.0f} s: {}",
                     ToSeconds(options_.retry), error.message());
}

void JobRecords::WriteEnd(const std::string& job) {
  const v1::JobRecord* last = facts_.FindRecord(job);
  if (last == nullptr || last->ended()) {
    const auto write = facts_.writes().find(job);
    if (write == facts_.writes().end() || write->second.outstanding) return;
    // If the store's answer was lost, the record may be on disk, so it is ended as well. This is
    // done for max_jobs jobs at most.
    if (!write->second.unknown || facts_.writes().size() > options_.max_jobs) {
      transition_.Apply(WriteForgotten{job});
      return;
    }
    last = &write->second.record;
  }
  if (!MayWrite(job) || MayComeBack(job)) return;
  v1::JobRecord record = *last;
  record.set_ended(true);
  *record.mutable_end() = EndOfJob(facts_.EndsOf(job));
  if (record.end().outcome() == v1::JOB_OUTCOME_UNSPECIFIED && facts_.IsInherited(job)) {
    record.mutable_end()->set_outcome(v1::JOB_LOST);
    record.mutable_end()->set_why("no consumer came back when the dispatcher had restarted");
  }
  record.set_ended_unix_seconds(transition_.unix_seconds());
  transition_.Apply(RecordSent{job});
  transition_.Do(CommitRecord{std::move(record)});
}

void JobRecords::OnCommitted(const v1::JobRecord& record, const Status& status) {
  if (status.ok()) {
    transition_.Apply(RecordKept{record, options_.max_records});
    if (record.ended()) {
      transition_.Note(
          {.kind = EventKind::kJobEnded,
           .text = fmt::format("Job {} ended: it has no consumer any more", record.name()),
           .job = record.name()});
    }
  } else {
    transition_.Log(LogLevel::kError, "store failed",
                    {{"job", record.name()}, {"why", status.message()}});
    transition_.Apply(RecordFailed{record, status, transition_.now() + options_.retry});
  }
  if (store_failed_ || !status.ok()) NoteStore();
  transition_.Mark(record.name());
}

void JobRecords::NoteStore() {
  const Status error = facts_.StoreError();
  if (error.ok() != store_failed_) return;
  store_failed_ = !error.ok();
  if (store_failed_) {
    transition_.Note({.kind = EventKind::kStoreFailed,
                      .text = "The store fails, so that no job can begin: " + error.message()});
  } else {
    transition_.Note({.kind = EventKind::kStoreWorks, .text = "The store works again"});
  }
}

void JobRecords::Tick() {
  for (const auto& [job, write] : facts_.writes()) {
    if (!write.outstanding && transition_.now() >= write.retry_at) transition_.Mark(job);
  }
  // Jobs of an earlier term end if nobody has come back to them.
  if (inherited_checked_ || transition_.now() - facts_.booted() < options_.session_timeout) return;
  inherited_checked_ = true;
  for (const auto& [job, record] : facts_.records()) {
    if (!record.ended()) transition_.Mark(job);
  }
}

bool JobRecords::MayComeBack(const std::string& job) const {
  return facts_.IsInherited(job) && transition_.now() - facts_.booted() < options_.session_timeout;
}

bool JobRecords::MayWrite(const std::string& job) const {
  const auto write = facts_.writes().find(job);
  if (write == facts_.writes().end()) return true;
  return !write->second.outstanding && transition_.now() >= write->second.retry_at;
}

}  // namespace millrace
