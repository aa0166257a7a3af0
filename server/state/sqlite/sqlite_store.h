// The default store: one SQLite file in a folder that one process holds at a time.
//
// The journal is SQLite's write-ahead log with synchronous=FULL: a commit is one append and one
// fsync, and a log cut anywhere leaves the commits before the cut. The file is checked whole when
// it is opened, and brought up to date where an older program wrote it (sqlite_schema.h).
// Thread-safe.
#pragma once

#include <filesystem>
#include <memory>

#include "common/base/result.h"
#include "server/state/state_store.h"

namespace millrace {

class SqliteStore {
 public:
  static constexpr const char* kFileName = "state.db";

  /// Makes the folder where it is missing, and locks it until the store is destroyed.
  /// FailedPrecondition where another process has it (named by its number) or a newer program wrote
  /// it; DataLoss where the file is damaged; PermissionDenied; ResourceExhausted for a full disk.
  static Result<std::unique_ptr<StateStore>> Open(const std::filesystem::path& folder);
};

}  // namespace millrace
