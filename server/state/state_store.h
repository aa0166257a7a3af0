// What is durable: the leader's term and one small record a job. Nothing read from here changes
// which batch is delivered.
//
// Thread-safe. Calls block for as long as the disk does: keep them off event loops.
#pragma once

#include <cstdint>
#include <vector>

#include "common/base/result.h"
#include "millrace/v1/journal.pb.h"

namespace millrace {

/// All that a store holds.
struct StoredState {
  std::uint64_t term = 0;
  std::vector<v1::JobRecord> jobs;  // by name
};

class StateStore {
 public:
  virtual ~StateStore() = default;

  virtual Result<StoredState> Load() = 0;

  /// Makes `term` the store's term, if it is higher than the one there; FailedPrecondition, naming
  /// both, otherwise. Durable when it returns ok.
  virtual Status CommitTerm(std::uint64_t term) = 0;

  /// Writes a job's record under `term`; FailedPrecondition where the store's term is another one.
  /// Keeps the newest 1,000 ended records of the last 7 days (by `now_unix_seconds`) and all live
  /// ones. Durable when it returns ok; nothing changed otherwise.
  virtual Status CommitJob(std::uint64_t term, const v1::JobRecord& record,
                           std::int64_t now_unix_seconds) = 0;
};

}  // namespace millrace
