// The records of jobs on disk. A job's record is written before the Welcome that begins the job,
// and again when the job ends.
//
// Not thread-safe: it belongs to the event loop.
#pragma once

#include <string>

#include "server/dispatcher/machine/transition.h"

namespace millrace {

class JobRecords {
 public:
  /// `transition` has to outlive it.
  explicit JobRecords(Transition& transition)
      : transition_(transition), facts_(transition.facts()), options_(transition.options()) {}

  /// Whether a record on disk says that the session's job is live, with the session's plan and
  /// world size.
  bool IsOnDisk(const SessionFacts& session) const;
  /// Begins to write the record of a job that `session` begins, unless that has to wait. Returns
  /// why the session waits; never empty. REQUIRES: the session has its plan, and its record is not
  /// on disk.
  std::string Write(const SessionFacts& session);
  /// Writes that a job without sessions has ended. A failed write is forgotten if it cannot have
  /// left anything on disk, or if there are more writes than max_jobs.
  void WriteEnd(const std::string& job);
  /// Takes the answer to a CommitRecord. REQUIRES: the store did not refuse this dispatcher's term.
  void OnCommitted(const v1::JobRecord& record, const Status& status);
  /// Marks the jobs whose records can be written now.
  void Tick();

 private:
  /// Whether sessions of an earlier term may still return to the job.
  bool MayComeBack(const std::string& job) const;
  bool MayWrite(const std::string& job) const;
  /// Notes that the store fails, or that it works again, each once.
  void NoteStore();

  Transition& transition_;
  const DispatcherFacts& facts_;
  const DispatcherOptions& options_;
  bool inherited_checked_ = false;
  bool store_failed_ = false;  // as it was noted last
};

}  // namespace millrace
