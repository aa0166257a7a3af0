// Whether the files of a dataset are, byte for byte, those that were indexed.
//
// Free functions, thread-safe.
#pragma once

#include <filesystem>
#include <vector>

#include "common/base/result.h"
#include "server/dataset/coq/index/dataset_index.h"
#include "server/dataset/coq/index/index_builder.h"

namespace millrace {

/// Reads all files of the index, on `options.threads` threads, and compares their digests; also
/// names files that the folder has and of which the index knows nothing, not even that it leaves
/// them out. OK, or DataLoss naming each file that differs, is gone, or is not indexed (they also
/// go to `bad` where it is given); Cancelled.
Status VerifyDataset(const std::filesystem::path& dir, const DatasetIndex& index,
                     const BuildOptions& options, std::vector<BadFile>* bad = nullptr);

}  // namespace millrace
