// Checks whether the files of a dataset are, byte for byte, the indexed ones.
//
// Free functions, thread-safe.
#pragma once

#include <filesystem>
#include <vector>

#include "common/base/result.h"
#include "server/kinds/coq/index/dataset_index.h"
#include "server/kinds/coq/index/index_builder.h"

namespace millrace {

/// Reads all files of the index, on `options.threads` threads, and compares their digests. Also
/// finds files in the folder that the index neither has nor leaves out. Returns OK, or DataLoss
/// that names each file that differs, is gone or is not indexed (these are also stored in `bad`, if
/// it is given), or Cancelled.
Status VerifyDataset(const std::filesystem::path& dir, const DatasetIndex& index,
                     const BuildOptions& options, std::vector<BadFile>* bad = nullptr);

}  // namespace millrace
