// Counts the rows of a window for PackMethod::kFit, without placing its pieces.
//
// Rows with equal rooms are alike for all pieces that follow, so only the number of rows of each
// room is kept. Pieces of one length are placed together: a row that takes one has the least room
// of all that are enough, until it has no room for another. So a window takes O(its documents):
// half the time of packing it, or less.
//
// Not thread-safe. Memory is reused between windows: 9 bytes for each element of a row.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "server/plan/pack/number_set.h"
#include "server/plan/pack/pack_options.h"
#include "server/plan/pack/pack_totals.h"

namespace millrace {

class RowCounter {
 public:
  /// REQUIRES: `options` are in their limits.
  explicit RowCounter(const PackOptions& options);

  /// The totals of a window with documents of these lengths. REQUIRES: at most kMaxPackWindow
  /// documents, and kMaxPackElements elements.
  PackTotals Count(std::span<const std::uint64_t> lengths);

 private:
  /// Adds `rows` rows with a room, which takes pieces only if it is not 0.
  void AddRows(std::uint32_t room, std::uint32_t rows) {
    if (room == 0 || rows == 0) return;
    if (rows_[room] == 0) rooms_.Insert(room);
    rows_[room] += rows;
  }
  /// Places pieces of one length, and returns how many rows it opens.
  std::uint32_t Place(std::uint32_t length, std::uint32_t pieces);
  /// The rows and pieces of the lengths in `pieces_`, which it empties.
  void PlaceAll(PackTotals& totals);

  const std::uint32_t size_;
  const PackAbove above_;
  NumberSet lengths_;                  // `size` − length of pieces: the longest come first
  std::vector<std::uint32_t> pieces_;  // by length: pieces to place
  NumberSet rooms_;
  std::vector<std::uint32_t> rows_;  // by room: rows that have it
};

}  // namespace millrace
