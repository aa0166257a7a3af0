// Packs windows for PackMethod::kFit: best fit decreasing (D. S. Johnson, "Near-optimal bin packing
// algorithms", MIT, 1973). Pieces are placed by (length descending, number ascending), each into
// the row with the least room that is enough, of several the one that was opened first. Then rows
// are numbered by the least number among their pieces.
//
// Full pieces, of `size` elements, are only counted. Each document has at most one other, so pieces
// are sorted by lists of documents for each length. A window takes O(its documents), and an
// operation of a heap for each change of a row's room.
//
// Not thread-safe. Memory is reused between windows: 9 bytes for each element of a row, 28 for each
// document of a window.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "server/plan/pack/number_set.h"
#include "server/plan/pack/pack_options.h"
#include "server/plan/pack/packed_window.h"
#include "server/plan/pack/row_heaps.h"

namespace millrace {

class WindowPacker {
 public:
  /// REQUIRES: `options` are in their limits.
  explicit WindowPacker(const PackOptions& options);

  /// The rows of a window with documents of these lengths, the first of which is `first_document`.
  /// REQUIRES: at most kMaxPackWindow documents, and kMaxPackElements elements.
  std::shared_ptr<const PackedWindow> Pack(std::uint64_t first_document,
                                           std::span<const std::uint64_t> lengths);

 private:
  static constexpr std::uint32_t kNone = NumberSet::kNone;

  /// Puts each document that has a piece to place into the list of its length.
  void Sort(std::span<const std::uint64_t> lengths);
  /// Places the pieces of the lists, which it empties.
  void Place();
  /// Places the pieces of one length: those of `document` and the ones behind it in its list.
  void PlaceList(std::uint32_t length, std::uint32_t document);
  /// Numbers the rows, and writes their pieces in that order.
  std::shared_ptr<const PackedWindow> Number(std::uint64_t first_document,
                                             std::span<const std::uint64_t> lengths);

  const std::uint32_t size_;
  const PackAbove above_;
  NumberSet lengths_;                 // `size` − length of the lists: the longest come first
  std::vector<std::uint32_t> first_;  // by length: the first document of its list
  RowHeaps heaps_;                    // of rows that have room, numbered as they are opened

  // By document of the window.
  std::vector<std::uint32_t> rest_;  // length of the piece to place; 0: none
  std::vector<std::uint32_t> next_;  // in its list
  std::vector<std::uint32_t> row_;   // as opened

  // By row, as opened.
  std::vector<std::uint32_t> pieces_;  // how many it has
  std::vector<std::uint32_t> place_;   // of its next piece; kNone: it has no number yet
  std::uint32_t placed_ = 0;           // pieces in all
};

}  // namespace millrace
