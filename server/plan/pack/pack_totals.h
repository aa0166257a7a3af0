// Sums over a set of documents and its rows.
//
// Values; thread-safe.
#pragma once

#include <cstdint>

namespace millrace {

/// Sums over documents and their rows. None is above 2^63 (kMaxPackElements).
struct PackTotals {
  std::uint64_t empty = 0;  // documents without elements
  std::uint64_t above = 0;  // for kFit: documents of more elements than a row has
  std::uint64_t rows = 0;
  std::uint64_t pieces = 0;
  std::uint64_t elements = 0;  // in rows
  std::uint64_t left_out = 0;  // elements in no row: PackAbove::kCut and kDrop
  friend bool operator==(const PackTotals&, const PackTotals&) = default;

  void Add(const PackTotals& other) {
    empty += other.empty;
    above += other.above;
    rows += other.rows;
    pieces += other.pieces;
    elements += other.elements;
    left_out += other.left_out;
  }

  /// Elements that rows of `size` lack. Correct though `rows · size` may pass 2^64: each window of
  /// kFit has at most one row that is not half full, so that less than 2^64 are lacking.
  std::uint64_t Padding(std::uint64_t size) const { return rows * size - elements; }
};

}  // namespace millrace
