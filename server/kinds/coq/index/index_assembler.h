// The second half of building an index: it turns the scanned files, in their order, into one index
// file.
//
// A free function; it uses threads of its own.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <vector>

#include "common/base/result.h"
#include "server/kinds/coq/index/index_builder.h"
#include "server/kinds/coq/index/left_out.h"
#include "server/kinds/coq/scan/file_blob.h"

namespace millrace {

/// A dataset whose files in `order` are all scanned and good, and depend only on each other.
struct ScannedDataset {
  std::vector<std::string> names;  // in any order; a place is a position in `names` and `summaries`
  std::vector<FileSummary> summaries;
  std::vector<std::uint32_t> order;   // places, in the dataset's order of files
  std::vector<LeftOutFile> left_out;  // ordered by name
};

/// Gives the blob of the file at a place. Called from several threads.
using BlobReader = std::function<Result<FileBlob>(std::uint32_t place)>;

/// Numbers all records in the order of files and writes the index file `index`. Calls `sample`
/// while memory is in use. Fills in the counts and index_bytes of `report`. ResourceExhausted if
/// the dataset has more records than an index can number, or if the disk is full.
Status AssembleIndex(const ScannedDataset& dataset, const BlobReader& blob_of,
                     const std::filesystem::path& index, const BuildOptions& options,
                     const std::function<void()>& sample, IndexReport& report);

}  // namespace millrace
