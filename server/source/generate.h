// How a kind makes up a dataset: a request with the given values of its parameters.
//
// Values; the function is thread-safe.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>

#include "common/base/result.h"
#include "common/parameters/params.h"

namespace millrace {

struct GenerateRequest {
  /// The given ones alone; the kind completes them by their defaults (WithDefaults).
  Params params;
  /// Called now and then, from any thread, with what was done since the last call, of `total`: the
  /// kind counts nodes or records.
  std::function<void(std::uint64_t done, std::uint64_t total)> progress;
};

/// Makes a folder, calls `write`, which fills it, and removes the files if that fails.
/// FailedPrecondition if the folder is not empty; errors of disks and of `write`.
Status GenerateInto(const std::filesystem::path& dir, const std::function<Status()>& write);

}  // namespace millrace
