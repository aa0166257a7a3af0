// The second half of building an index: from the scanned files in their order to one index file.
//
// Free function; uses threads of its own.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <vector>

#include "common/base/result.h"
#include "server/dataset/coq/index/index_builder.h"
#include "server/dataset/coq/index/left_out.h"
#include "server/dataset/coq/scan/file_blob.h"

namespace millrace {

/// A dataset whose files in `order` are all scanned and good, and need no others.
struct ScannedDataset {
  std::vector<std::string> names;  // in any order: places count in these two
  std::vector<FileSummary> summaries;
  std::vector<std::uint32_t> order;   // places, in the dataset's order of files
  std::vector<LeftOutFile> left_out;  // by name
};

/// The blob of the file at a place. Called from several threads.
using BlobReader = std::function<Result<FileBlob>(std::uint32_t place)>;

/// Numbers everything in the order of files and writes the index file `index`. `sample` is called
/// while memory is in use. Fills in the counts and index_bytes of `report`. ResourceExhausted where
/// the dataset has more records than an index can number, or the disk has no room.
Status AssembleIndex(const ScannedDataset& dataset, const BlobReader& blob_of,
                     const std::filesystem::path& index, const BuildOptions& options,
                     const std::function<void()>& sample, IndexReport& report);

}  // namespace millrace
