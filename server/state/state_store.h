// What is durable: the leader's term and one small record a job. Nothing read from here changes
// which batch is delivered.
//
// Every backend passes the same tests (tests/unit/server/state/state_store_test.cc). Codes, beside
// those below: Unavailable, ResourceExhausted (no space), PermissionDenied: nothing was
// acknowledged, and a later try may pass; where a network lost the answer, a later Load may find it
// done. Internal: what is on disk cannot be known any more; nothing was acknowledged, and the
// process has to end.
//
// Thread-safe. Calls block for as long as the disk or the network does: keep them off event loops.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "millrace/v1/journal.pb.h"

namespace millrace {

/// All that a store holds.
struct StoredState {
  std::uint64_t term = 0;
  std::vector<v1::JobRecord> jobs;  // by name
};

/// Records of ended jobs that are kept: the newest so many, of the last so many seconds.
constexpr std::size_t kEndedRecordsKept = 1000;
constexpr std::int64_t kEndedSecondsKept = 7 * 24 * 3600;

class StateStore {
 public:
  virtual ~StateStore() = default;

  virtual Result<StoredState> Load() = 0;

  /// Makes `term` the store's term, if it is higher than the one there; FailedPrecondition, naming
  /// both, otherwise. Durable when it returns ok.
  virtual Status CommitTerm(std::uint64_t term) = 0;

  /// Writes a job's record under `term`; FailedPrecondition where the store's term is another one.
  /// Keeps the newest 1,000 ended records of the last 7 days (by `now_unix_seconds`) and all live
  /// ones. Durable when it returns ok.
  virtual Status CommitJob(std::uint64_t term, const v1::JobRecord& record,
                           std::int64_t now_unix_seconds) = 0;
};

/// Not ok where `term` may not follow `present`, the store's.
inline Status CheckNewTerm(std::uint64_t term, std::uint64_t present) {
  if (term > present) return OkStatus();
  return FailedPrecondition("term " + std::to_string(term) + " is over: the store has term " +
                            std::to_string(present));
}

/// Not ok where `term` is not `present`, the store's.
inline Status CheckWritingTerm(std::uint64_t term, std::uint64_t present) {
  if (term == present) return OkStatus();
  return FailedPrecondition("term " + std::to_string(term) + " may not write: the store has term " +
                            std::to_string(present));
}

}  // namespace millrace
