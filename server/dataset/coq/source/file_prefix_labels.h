// The labels of files under a split by the prefixes of their names.
//
// Pure function; thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "common/base/result.h"
#include "server/dataset/coq/index/dataset_index.h"
#include "server/dataset/split.h"

namespace millrace {

/// Label of every file: the highest list with a prefix that the file's name starts with, else 0.
/// InvalidArgument for a prefix that no file's name starts with, and for a file that depends on one
/// with a higher label (both named).
Result<std::vector<std::uint32_t>> FilePrefixLabels(const DatasetIndex& index,
                                                    const SplitOptions& options);

}  // namespace millrace
