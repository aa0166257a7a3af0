// Changes the numbers in one file's records, which count within the file, to numbers of the index.
//
// Thread-safe: there is no state except the arguments.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/base/result.h"
#include "server/kinds/coq/index/index_writer.h"
#include "server/kinds/coq/scan/file_blob.h"

namespace millrace {

/// The places in the index where the records of a file begin, and the meanings of the file's own
/// numbers.
struct BlobPlace {
  std::uint32_t file = 0;
  BlobCounts first;                   // number of entries of all files before this one
  std::uint64_t first_name = 0;       // string number of the first definition name in the index
  std::uint64_t first_name_byte = 0;  // first byte of the name of this file's first definition
  std::span<const std::uint32_t> dependencies;  // FileIds
  std::span<const std::uint32_t> tactics;       // numbers in the index of FileSummary::tactics
};

/// Changes the blob's numbers and writes its records to their places.
Status PlaceBlob(const BlobPlace& place, FileBlob& blob, IndexWriter& writer);

}  // namespace millrace
