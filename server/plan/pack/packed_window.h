// The rows of one window of PackMethod::kFit. Full pieces, which are rows of their own, are counted
// and not listed: 8 bytes for each other piece, 4 for each row of them, and 16 for each document
// that has a full piece.
//
// Immutable; thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "server/plan/pack/pieces.h"

namespace millrace {

class PackedWindow {
 public:
  /// The full pieces of a document, which are rows one after another.
  struct FullRun {
    std::uint32_t document = 0;      // in the window
    std::uint32_t mixed_before = 0;  // mixed rows before them
    std::uint64_t full_before = 0;   // full rows before them
    std::uint64_t first_row() const { return mixed_before + full_before; }
  };
  /// Rows, as WindowPacker finds them. A *mixed* row has pieces below `size` only.
  struct Rows {
    std::uint64_t first_document = 0;      // of the window
    std::uint64_t size = 0;                // elements of a full row
    std::vector<FullRun> runs;             // by document, and so by row
    std::uint64_t full = 0;                // rows of all runs
    std::vector<std::uint32_t> begins;     // of each mixed row in the arrays below, then their end
    std::vector<std::uint32_t> documents;  // in the window, of each piece of mixed rows
    std::vector<std::uint32_t> lengths;
  };

  explicit PackedWindow(Rows rows) : rows_(std::move(rows)) {}

  /// Number of rows. In the calls below they are counted from the first of the window.
  std::uint64_t size() const { return mixed() + rows_.full; }
  /// Memory, without the object itself.
  std::uint64_t bytes() const;

  /// Appends the pieces of a row. REQUIRES: row < size().
  void AppendPieces(std::uint64_t row, std::vector<Piece>& pieces) const;
  /// The columns of consecutive rows. REQUIRES: the window has them.
  void ReadColumns(std::uint64_t first, std::span<RowColumns> columns) const;
  /// The rows of a document, ascending; none if it has no pieces. `document` counts all documents.
  /// Takes O(pieces of the window). REQUIRES: it is of the window.
  std::vector<RowRun> RowsOf(std::uint64_t document) const;

 private:
  std::uint64_t mixed() const { return rows_.begins.size() - 1; }
  /// Full rows of the runs before run number `run`, which may be the number of runs.
  std::uint64_t FullBefore(std::size_t run) const {
    return run == rows_.runs.size() ? rows_.full : rows_.runs[run].full_before;
  }
  /// Number of runs that begin at or before a row.
  std::size_t RunsUpTo(std::uint64_t row) const;
  /// Full pieces of a document of the window, before its other piece.
  std::uint64_t FullPiecesOf(std::uint32_t document) const;

  Rows rows_;
};

}  // namespace millrace
