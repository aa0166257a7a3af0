// The labels of files under a split by name prefixes.
//
// Pure function; thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "server/source/split.h"

namespace millrace {

/// The label of every file: the number (from 1) of the last list with a prefix that the file's name
/// starts with, or 0. InvalidArgument if some prefix fits no file's name.
Result<std::vector<std::uint32_t>> LabelsOfFiles(std::span<const std::string_view> names,
                                                 const SplitOptions& options);

}  // namespace millrace
