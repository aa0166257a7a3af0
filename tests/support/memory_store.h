// A store that loses everything with its process, for tests and simulation. It can be made to fail.
//
// Thread-safe.
#pragma once

#include <map>
#include <string>
#include <utility>

#include "common/base/mutant.h"
#include "common/system/mutex.h"
#include "server/state/state_store.h"

namespace millrace {

class MemoryStore final : public StateStore {
 public:
  Result<StoredState> Load() override {
    MutexLock lock(mutex_);
    if (!failure_.ok()) return failure_;
    StoredState state;
    state.term = term_;
    for (const auto& [name, record] : jobs_) state.jobs.push_back(record);
    return state;
  }

  Status CommitTerm(std::uint64_t term) override {
    MutexLock lock(mutex_);
    if (!failure_.ok()) return failure_;
    if (!IsMutant(Mutant::kStoreFenceOff)) MILLRACE_RETURN_IF_ERROR(CheckNewTerm(term, term_));
    term_ = term;
    return OkStatus();
  }

  Status CommitJob(std::uint64_t term, const v1::JobRecord& record,
                   std::int64_t now_unix_seconds) override {
    MutexLock lock(mutex_);
    if (!failure_.ok()) return failure_;
    if (!IsMutant(Mutant::kStoreFenceOff)) MILLRACE_RETURN_IF_ERROR(CheckWritingTerm(term, term_));
    jobs_[record.name()] = record;
    std::multimap<std::int64_t, std::string> ended;  // oldest first
    for (const auto& [name, job] : jobs_) {
      if (job.ended()) ended.emplace(job.ended_unix_seconds(), name);
    }
    while (!ended.empty() && (ended.size() > kEndedRecordsKept ||
                              ended.begin()->first < now_unix_seconds - kEndedSecondsKept)) {
      jobs_.erase(ended.begin()->second);
      ended.erase(ended.begin());
    }
    return OkStatus();
  }

  /// Every call fails with `failure`, until this is called with an ok status.
  void FailWith(Status failure) {
    MutexLock lock(mutex_);
    failure_ = std::move(failure);
  }

 private:
  mutable Mutex mutex_;
  Status failure_ MILLRACE_GUARDED_BY(mutex_);
  std::uint64_t term_ MILLRACE_GUARDED_BY(mutex_) = 0;
  std::map<std::string, v1::JobRecord> jobs_ MILLRACE_GUARDED_BY(mutex_);
};

}  // namespace millrace
