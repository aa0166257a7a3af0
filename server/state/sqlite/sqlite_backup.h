// A copy of a state file as it was at one moment, made while a daemon writes to it.
#pragma once

#include <cstdint>
#include <filesystem>

#include "common/base/result.h"

namespace millrace {

/// What a backup holds.
struct BackupSummary {
  std::uint64_t term = 0;
  std::uint64_t jobs = 0;  // records
  std::uint64_t bytes = 0;
};

/// Copies the state file of `folder` to the new file `to`: wholly, checked and on disk, or not at
/// all. The daemon goes on meanwhile. A backup is a state file: put it into a folder as `state.db`
/// to start from it. NotFound where the folder has no state file; AlreadyExists where `to` is
/// there; else as SqliteStore::Open.
Result<BackupSummary> BackUpState(const std::filesystem::path& folder,
                                  const std::filesystem::path& to);

}  // namespace millrace
