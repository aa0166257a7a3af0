// Copies a state file as it is at one moment, while a daemon may write to it.
#pragma once

#include <cstdint>
#include <filesystem>

#include "common/base/result.h"

namespace millrace {

/// The content of a backup.
struct BackupSummary {
  std::uint64_t term = 0;
  std::uint64_t jobs = 0;  // number of job records
  std::uint64_t bytes = 0;
};

/// Copies the state file of `folder` to the new file `to`. The copy is complete, checked and on
/// disk, or absent. The daemon goes on meanwhile. A backup is a state file: to start from it, put
/// it in a folder as `state.db`. NotFound if the folder has no state file. AlreadyExists if `to`
/// exists. Otherwise errors of SqliteStore::Open.
Result<BackupSummary> BackUpState(const std::filesystem::path& folder,
                                  const std::filesystem::path& to);

}  // namespace millrace
