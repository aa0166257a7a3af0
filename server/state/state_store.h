// The durable state: the leader's term, and one small record per job. Nothing read from here
// changes which batch is delivered.
//
// All stores pass the same tests (tests/unit/server/state/state_store_test.cc). Besides the codes
// below, calls return: Unavailable, ResourceExhausted (no space) or PermissionDenied if nothing was
// acknowledged, and a later try may succeed. If a network lost the answer, a later Load may show
// that the write was done. Internal if the content of the disk is not known any more; nothing was
// acknowledged, and the process has to end.
//
// Thread-safe. Calls block as long as the disk or the network does, so keep them off event loops.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "millrace/v1/journal.pb.h"

namespace millrace {

/// Everything in a store.
struct StoredState {
  std::uint64_t term = 0;
  std::vector<v1::JobRecord> jobs;  // sorted by name
};

/// Records of ended jobs are kept up to this number, the newest first, and up to this age.
constexpr std::size_t kEndedRecordsKept = 1000;
constexpr std::int64_t kEndedSecondsKept = 7 * 24 * 3600;

class StateStore {
 public:
  virtual ~StateStore() = default;

  virtual Result<StoredState> Load() = 0;

  /// Sets the store's term to `term`, if that is higher than the present one. Otherwise
  /// FailedPrecondition, with both terms. The term is durable when this returns ok.
  virtual Status CommitTerm(std::uint64_t term) = 0;

  /// Writes the record of a job under `term`. FailedPrecondition if the store has another term.
  /// Keeps the records of all live jobs, and the newest 1,000 records of jobs that ended in the
  /// last 7 days (by `now_unix_seconds`). The record is durable when this returns ok.
  virtual Status CommitJob(std::uint64_t term, const v1::JobRecord& record,
                           std::int64_t now_unix_seconds) = 0;
};

/// Not ok unless `term` may follow `present`, the store's term.
inline Status CheckNewTerm(std::uint64_t term, std::uint64_t present) {
  if (term > present) return OkStatus();
  return FailedPrecondition("term " + std::to_string(term) + " is over: the store has term " +
                            std::to_string(present));
}

/// Not ok unless `term` is `present`, the store's term.
inline Status CheckWritingTerm(std::uint64_t term, std::uint64_t present) {
  if (term == present) return OkStatus();
  return FailedPrecondition("term " + std::to_string(term) + " may not write: the store has term " +
                            std::to_string(present));
}

}  // namespace millrace
