// Layouts of packed documents, which are kept in files beside the measured columns of a dataset.
// server/plan/pack/layout_bytes.h has the format. Every process that compiles a plan may write the
// file: all write the same bytes.
//
// Free functions; thread-safe.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "common/base/ids.h"
#include "common/base/log.h"
#include "common/base/result.h"
#include "server/plan/pack/pack_layout.h"

namespace millrace {

/// The layout of a key from the first folder that has it. A file that cannot be read, or has
/// another layout, is logged and counts as missing.
std::optional<PackLayout> FindLayout(const std::vector<std::filesystem::path>& folders,
                                     const Digest128& key, const PackOptions& options,
                                     std::uint64_t documents, Logger& logger);

/// Writes a layout into the first of the folders that can be written. If none can be written, the
/// error of the last one.
Status KeepLayout(const std::vector<std::filesystem::path>& folders, const Digest128& key,
                  const PackLayout& layout);

}  // namespace millrace
