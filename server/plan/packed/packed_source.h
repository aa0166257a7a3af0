// A source whose examples are rows into which the selected examples of another source, the
// documents, are packed (`pack`).
//
// Immutable, except for windows of rows that are kept for all its readers; thread-safe.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <stop_token>
#include <vector>

#include "common/base/ids.h"
#include "common/base/log.h"
#include "common/base/result.h"
#include "server/plan/packed/row_tensors.h"
#include "server/source/order_parts.h"
#include "server/source/plan_parts.h"
#include "server/source/source.h"

namespace millrace {

/// Names of the columns of rows besides `T.length`.
inline constexpr const char* kPackPieces = "pack.pieces";
inline constexpr const char* kPackSquares = "pack.squares";

struct PackingOptions {
  PackNeeds needs;
  Digest128 operations;                             // that build documents, a user's code too
  std::vector<std::filesystem::path> folders = {};  // that may keep where rows begin
  unsigned threads = 0;       // that count rows; 0: one for each CPU of the process
  std::stop_token stop = {};  // ends counting with Cancelled
};

/// The rows of the documents that the parts select. Rows have the columns `T.length`, kPackPieces
/// and kPackSquares. `source` itself if the parts have no PackPart. Errors of CheckPacks and
/// Selection::Make; InvalidArgument if the source has no column with the lengths, or if there are
/// no rows.
Result<std::shared_ptr<const Source>> PackDocuments(std::shared_ptr<const Source> source,
                                                    const PlanParts& parts,
                                                    const PackingOptions& options, Logger& logger);

}  // namespace millrace
