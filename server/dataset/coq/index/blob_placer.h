// Moves the records of one file from the numbers that count within it to those of the index.
//
// Thread-safe: no state but the arguments.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/base/result.h"
#include "server/dataset/coq/index/index_writer.h"
#include "server/dataset/coq/scan/file_blob.h"

namespace millrace {

/// Where the records of a file begin in the index, and what its own numbers stand for.
struct BlobPlace {
  std::uint32_t file = 0;
  BlobCounts first;                   // entries of all files before this one
  std::uint64_t first_name = 0;       // string number of the first definition of the index
  std::uint64_t first_name_byte = 0;  // where the name of this file's first definition begins
  std::span<const std::uint32_t> dependencies;  // FileIds
  std::span<const std::uint32_t> tactics;       // numbers in the index of FileSummary::tactics
};

/// Rewrites the blob's numbers and writes its records to their places.
Status PlaceBlob(const BlobPlace& place, FileBlob& blob, IndexWriter& writer);

}  // namespace millrace
