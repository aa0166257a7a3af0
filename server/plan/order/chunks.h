// Chunks: long examples that are cut into several (`chunk`). The chunks of all rows are numbered
// row after row. Orders then count chunks in place of rows. The numbering takes 1.3 bits per chunk.
//
// Immutable; thread-safe.
#pragma once

#include <cstdint>
#include <span>

#include "server/source/ranked_bitmap.h"

namespace millrace {

class Chunks {
 public:
  struct Options {
    std::uint64_t size = 0;  // elements of a chunk, at most; above 0
    std::uint64_t step = 0;  // from the start of a chunk to the next start; 1 to size
  };
  /// Chunk `number` of a row.
  struct Place {
    std::uint64_t row = 0;
    std::uint64_t number = 0;
    friend bool operator==(const Place&, const Place&) = default;
  };
  /// Elements [begin, end) of a row.
  struct Extent {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    friend bool operator==(const Extent&, const Extent&) = default;
  };

  /// REQUIRES: each length is at most kMaxOrderValue.
  Chunks(std::span<const std::uint64_t> lengths, const Options& options);

  /// Number of chunks of a row of `length` elements. A row without elements has one chunk, which is
  /// empty.
  static std::uint64_t CountOf(std::uint64_t length, const Options& options);

  /// Number of chunks of all rows.
  std::uint64_t size() const { return first_.size(); }
  /// REQUIRES: chunk < size().
  Place At(std::uint64_t chunk) const;
  /// The first chunk of a row. REQUIRES: row <= number of rows, where the last gives size().
  std::uint64_t FirstOf(std::uint64_t row) const;
  /// The elements of chunk `number` of a row of `length` elements.
  Extent ExtentOf(std::uint64_t number, std::uint64_t length) const;

 private:
  Options options_;
  RankedBitmap first_;  // the chunks that are the first of their row
};

}  // namespace millrace
