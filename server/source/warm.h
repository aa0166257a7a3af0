// Reads files of a dataset ahead into the page cache, and reports how much of them was in the
// cache before and after.
//
// A free function; it uses threads of its own.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <stop_token>

#include "common/base/result.h"
#include "server/files/dataset_files.h"

namespace millrace {

struct WarmOptions {
  unsigned threads = 4;  // readers; a disk that gets one request at a time is slow
  std::stop_token stop;
  /// `begin` is called with the size of all files before any is read. Then `progress` is called,
  /// from several threads, with the bytes that were read or found since its last call.
  std::function<void(std::uint64_t total)> begin;
  std::function<void(std::uint64_t bytes)> progress;
};

struct WarmReport {
  std::uint64_t files = 0;
  std::uint64_t bytes = 0;
  std::uint64_t cached_before = 0;
  std::uint64_t cached_after = 0;  // of all files, when the last one had been read
  std::uint64_t read = 0;          // bytes of the files that were not completely in the cache
  double seconds = 0;
};

/// Reads the files of the listing, whose names are relative to `dir`. Skips files that are
/// completely in the cache. DataLoss that names the bad files, also the bad files of the listing,
/// after all others were read; Cancelled.
Result<WarmReport> WarmFiles(const std::filesystem::path& dir, DatasetListing listing,
                             const WarmOptions& options);

}  // namespace millrace
