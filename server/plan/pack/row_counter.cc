#include "server/plan/pack/row_counter.h"

#include <algorithm>

#include "server/plan/pack/document_cut.h"

namespace millrace {

RowCounter::RowCounter(const PackOptions& options)
    : size_(static_cast<std::uint32_t>(options.size)),
      above_(options.above),
      lengths_(size_),
      pieces_(size_, 0),
      rooms_(size_),
      rows_(size_, 0) {}

PackTotals RowCounter::Count(std::span<const std::uint64_t> lengths) {
  PackTotals totals;
  std::uint64_t all = 0;
  for (const std::uint64_t length : lengths) {
    all += length;
    std::uint32_t rest = 0;
    if (length < size_) {
      rest = static_cast<std::uint32_t>(length);
      totals.empty += length == 0 ? 1 : 0;
    } else {
      const DocumentCut cut = CutDocument(length, size_, above_);
      totals.above += length > size_ ? 1 : 0;
      totals.rows += cut.full;
      rest = cut.rest;
    }
    if (rest == 0) continue;
    if (pieces_[rest]++ == 0) lengths_.Insert(size_ - rest);
  }
  totals.pieces = totals.rows;
  totals.elements = totals.rows * size_;
  PlaceAll(totals);
  totals.left_out = all - totals.elements;
  return totals;
}

void RowCounter::PlaceAll(PackTotals& totals) {
  for (std::uint32_t key = lengths_.Next(0); key != NumberSet::kNone; key = lengths_.Next(key)) {
    lengths_.Erase(key);
    const std::uint32_t length = size_ - key;
    const std::uint32_t pieces = pieces_[length];
    pieces_[length] = 0;
    totals.pieces += pieces;
    totals.elements += std::uint64_t{pieces} * length;
    totals.rows += Place(length, pieces);
  }
  for (std::uint32_t room = rooms_.Next(0); room != NumberSet::kNone; room = rooms_.Next(room)) {
    rooms_.Erase(room);
    rows_[room] = 0;
  }
}

std::uint32_t RowCounter::Place(std::uint32_t length, std::uint32_t pieces) {
  while (pieces > 0) {
    const std::uint32_t room = rooms_.Next(length);
    const bool opens = room == NumberSet::kNone;
    const std::uint32_t free = opens ? size_ : room;
    // Pieces that a row takes, the rows that take so many, and what another one takes.
    const std::uint32_t each = free < 2 * length ? 1 : free / length;
    std::uint32_t filled = each == 1 ? pieces : pieces / each;
    std::uint32_t last = each == 1 ? 0 : pieces % each;
    if (!opens && filled >= rows_[room]) {
      filled = rows_[room];
      last = 0;
    }
    pieces -= filled * each + last;
    const std::uint32_t rows = filled + (last > 0 ? 1 : 0);
    if (!opens) {
      rows_[room] -= rows;
      if (rows_[room] == 0) rooms_.Erase(room);
    }
    AddRows(free - each * length, filled);
    if (last > 0) AddRows(free - last * length, 1);
    if (opens) return rows;
  }
  return 0;
}

}  // namespace millrace
