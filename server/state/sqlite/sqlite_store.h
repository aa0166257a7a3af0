// The default store: one SQLite file in a folder that only one process can hold at a time.
//
// The journal is SQLite's write-ahead log with synchronous=FULL. So a commit is one append and one
// fsync, and a log that is cut anywhere keeps the commits before the cut. When the file is opened,
// it is checked completely, and brought up to date if an older program wrote it (sqlite_schema.h).
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

  /// Creates the folder if it does not exist, and locks it until the store is destroyed.
  /// FailedPrecondition if another process has it (the message has its number), or if a newer
  /// program wrote it. DataLoss if the file is damaged. PermissionDenied. ResourceExhausted if the
  /// disk is full.
  static Result<std::unique_ptr<StateStore>> Open(const std::filesystem::path& folder);
};

}  // namespace millrace
