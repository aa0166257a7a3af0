// The pieces of documents that lie in rows, and the rows of a document.
//
// Values; thread-safe.
#pragma once

#include <cstdint>
#include <vector>

namespace millrace {

/// The elements [begin, begin + length) of a document.
struct Piece {
  std::uint64_t document = 0;
  std::uint64_t begin = 0;
  std::uint64_t length = 0;  // 1 to the size of a row
  friend bool operator==(const Piece&, const Piece&) = default;
};

/// The columns of a row, from the lengths of its pieces alone.
struct RowColumns {
  std::uint64_t length = 0;   // sum of the lengths; at most 2^20
  std::uint64_t pieces = 0;   // at most 2^20
  std::uint64_t squares = 0;  // sum of the squares of the lengths; at most 2^40
  friend bool operator==(const RowColumns&, const RowColumns&) = default;

  void Add(std::uint64_t piece) {
    length += piece;
    ++pieces;
    squares += piece * piece;
  }
};

/// The rows [first, first + count).
struct RowRun {
  std::uint64_t first = 0;
  std::uint64_t count = 0;
  friend bool operator==(const RowRun&, const RowRun&) = default;
};

/// The rows that have pieces of a document, or why there are none.
struct DocumentRows {
  enum class Reason : std::uint8_t {
    kHasRows,
    kEmpty,  // no elements, or the caller gave 0 for another reason
    kAbove,  // more elements than a row, and PackAbove::kDrop
  };
  Reason reason = Reason::kHasRows;
  std::vector<RowRun> runs;  // ascending, with gaps between them; at most two
  friend bool operator==(const DocumentRows&, const DocumentRows&) = default;
};

}  // namespace millrace
