// Reads the files of a dataset ahead into the page cache, and says how much of them was there and
// is there.
//
// Free function; uses threads of its own.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <stop_token>

#include "common/base/result.h"

namespace millrace {

struct WarmOptions {
  unsigned threads = 4;  // that read: a disk that is asked for one thing at a time is slow
  std::stop_token stop;
  /// Called with the size of all files before any is read, and then, from several threads, with the
  /// bytes that were read or found since the last call.
  std::function<void(std::uint64_t total)> begin;
  std::function<void(std::uint64_t bytes)> progress;
};

struct WarmReport {
  std::uint64_t files = 0;
  std::uint64_t bytes = 0;
  std::uint64_t cached_before = 0;
  std::uint64_t cached_after = 0;  // of all files, when the last one was read
  std::uint64_t read = 0;          // of files that were not in the cache as a whole
  double seconds = 0;
};

/// Reads every *.bin file below `dir`, and the index there if there is one, but for files that the
/// cache has as a whole. Errors of ListDataset; DataLoss naming the bad files, after all others
/// were read; Cancelled.
Result<WarmReport> WarmDataset(const std::filesystem::path& dir, const WarmOptions& options);

}  // namespace millrace
