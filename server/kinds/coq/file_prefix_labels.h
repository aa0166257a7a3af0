// The labels of files under a split by name prefixes.
//
// Pure function; thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "common/base/result.h"
#include "server/kinds/coq/index/dataset_index.h"
#include "server/source/split.h"

namespace millrace {

/// The label of every file (LabelsOfFiles). InvalidArgument also if a file depends on a file with a
/// higher label (the message names both).
Result<std::vector<std::uint32_t>> FilePrefixLabels(const DatasetIndex& index,
                                                    const SplitOptions& options);

}  // namespace millrace
