// A layout as bytes, which are kept in a file. Numbers are little endian, without gaps:
//
//   bytes  what
//   8      MRLAYOUT
//   4      version, 1
//   16     key: digest of all that the documents and their lengths depend on
//   1, 1   method, above (0 with concat)
//   8, 8   size, window (0 with concat)
//   8      number of documents
//   8 × 6  totals: documents that are empty, and above; rows, pieces, elements, left out
//   1      w: bytes of a number below; 1, 2, 4 or 8, as few as hold the largest
//   w × V  of each window its rows (fit), of each 256 documents their elements (concat)
//   16     XXH3-128 of all bytes before
//
// Free functions; thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "server/plan/pack/pack_layout.h"

namespace millrace {

std::vector<std::byte> EncodePackLayout(const PackLayout& layout, const Digest128& key);

/// The layout in such bytes. DataLoss with the error if they are damaged, of another version, or of
/// another key, other options or another number of documents. Allocates at most 8 times the bytes.
Result<PackLayout> DecodePackLayout(std::span<const std::byte> bytes, const Digest128& key,
                                    const PackOptions& options, std::uint64_t documents);

}  // namespace millrace
